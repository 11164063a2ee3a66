"""`joiner local executions`: the newest executions, and what one of them did, read from the local Step Functions."""

from datetime import UTC, datetime, timedelta

import pytest

from joiner_cli.local_executions import ExecutionUnknown, describe_execution, list_executions
from tests.local.running_aws import RunningAws
from tests.local.state_machine_runs import SDK, Sfn, machine

pytestmark = pytest.mark.local

STATES = {
    "First": {"Type": "Pass"},
    "Rest": {"Type": "Wait", "Seconds": 1},
    "Read": {"Type": "Task", "Resource": f"{SDK}:dynamodb:getItem", "Arguments": {"TableName": "none", "Key": {}}},
}


@pytest.fixture
def sfn(local_aws: RunningAws) -> Sfn:
    return Sfn(local_aws)


def words(line: str) -> list[str]:
    return line.split()


def test_the_states_of_an_execution_are_described_with_times_and_the_failure(sfn: Sfn) -> None:
    name = sfn.aws.fresh("run")
    sfn.end(sfn.start(sfn.create(machine(STATES)), name=name))

    *states, end = describe_execution(sfn.api, name)

    assert [words(one)[-1] for one in states[:3]] == ["First", "Rest", "Read"]
    assert float(words(states[1])[2]) >= 1.0 and float(words(states[2])[0]) >= 1.0
    assert "TaskFailed: DynamoDb.ResourceNotFoundException" in states[3]
    assert end.startswith("FAILED: DynamoDb.ResourceNotFoundException: ")


def test_a_state_that_is_entered_twice_has_the_time_of_each_visit(sfn: Sfn) -> None:
    more = {"Condition": "{% $states.input.left > 0 %}", "Next": "Wait", "Output": {"left": 0}}
    states = {
        "Wait": {"Type": "Wait", "Seconds": 1, "Next": "More"},
        "More": {"Type": "Choice", "Choices": [more], "Default": "Done"},
        "Done": {"Type": "Succeed"},
    }
    name = sfn.aws.fresh("run")
    sfn.end(sfn.start(sfn.create(machine(states)), {"left": 1}, name=name))

    found = [words(one) for one in describe_execution(sfn.api, name)]

    (start, took), (again_at, took_again) = [(float(one[0]), float(one[2])) for one in found if one[-1] == "Wait"]
    assert took >= 1.0 and took_again >= 1.0
    assert start + took <= again_at + 0.1  # of rounding
    assert found[-1] == ["SUCCEEDED"]


def test_executions_are_listed_with_machine_status_and_duration(sfn: Sfn) -> None:
    first, second = sfn.aws.fresh("run"), sfn.aws.fresh("run")
    arn = sfn.create(machine({"Rest": {"Type": "Wait", "Seconds": 60}}))
    sfn.end(sfn.start(sfn.create(machine({"First": {"Type": "Pass"}})), name=first))
    running = sfn.start(arn, name=second)

    lines = list(list_executions(sfn.api, datetime.now(UTC) + timedelta(seconds=10)))
    sfn.api.stop_execution(executionArn=running)

    (one,), (other,) = ([words(line) for line in lines if line.endswith(f"  {name}")] for name in (first, second))
    assert lines.index(next(x for x in lines if first in x)) < lines.index(next(x for x in lines if second in x))
    assert one[3] == "SUCCEEDED"
    assert other[3:5] == ["RUNNING", arn.rpartition(":")[2]] and float(other[1]) >= 10


def test_an_unknown_execution_is_named(sfn: Sfn) -> None:
    with pytest.raises(ExecutionUnknown, match="has the name up-0: `joiner local executions` lists"):
        list(describe_execution(sfn.api, "up-0"))
