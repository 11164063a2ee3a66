"""Console outputs of instances whose nodes never registered: kept once, with their cause. Whatever the services of
these calls do, the survey decides what it would decide without them.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from functions.survey_instances.optional_calls import OptionalCalls
from joiner.adapters import environment
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.parallel_calls import RESERVE, TimeLeft
from joiner.adapters.retirements import Retirements
from joiner.adapters.store import Store
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.names import NODECLAIM
from tests.unit.functions.fake_ec2 import lost, refused
from tests.unit.functions.retirement_execution import RetirementExecution
from tests.unit.functions.simulated_cluster import SimulatedCluster


@pytest.fixture
def failed(launched: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster with two instances that wrote to their consoles, and whose nodes did not register in time."""
    launched.ec2.consoles = dict.fromkeys(launched.ec2.instances, "kubelet: Unauthorized")
    launched.now += timedelta(minutes=16)
    launched.check("up-1")
    return launched


class RefusingBucket:
    """The client of a bucket that accepts no document."""

    def put_object(self, **_: Any) -> None:
        raise refused("PutObject", "AccessDenied")


class SilentBucket:
    """The client of a bucket that does not answer."""

    def put_object(self, **_: Any) -> None:
        raise lost("PutObject")


def failing(operation: str, error: Callable[[str], Exception]) -> Callable[[str, Callable[[], Any]], Any]:
    """Return a fault of EC2: `operation` raises the error, every other call works."""

    def fault(asked: str, do: Callable[[], Any]) -> Any:
        if asked == operation:
            raise error(asked)
        return do()

    return fault


def consoles_of(cluster: SimulatedCluster) -> dict[str, tuple[int, str]]:
    """Return how often the console output of each claim was read, and what is known from it."""
    retirements = Retirements(cluster.ledger._client, cluster.ledger._table).all()
    return {name: (one.console_reads, one.console) for name, one in sorted(retirements.items())}


def retired(answer: dict[str, Any]) -> list[str]:
    return [each["reason"] for each in answer["retire"]]


def test_the_cause_in_the_console_output_of_a_node_that_never_came_is_on_its_claim(launched: SimulatedCluster) -> None:
    first, second = sorted(launched.ec2.instances)
    secret = "PASSWORD=hunter2"
    launched.ec2.consoles[first] = f"cloud-init: {secret}\nkubelet: Unable to register node: Unauthorized\n"
    launched.now += timedelta(minutes=16)
    launched.check("up-1")  # gives both claims up

    _, survey = launched.survey("s1")
    assert [each["reason"] for each in survey["retire"]] == ["never-joined"] * 2
    launched.survey("s2")
    RetirementExecution(launched, "retire-1").run(
        *(RetirementRequest(each["claim"], RetirementReason.NEVER_JOINED) for each in survey["retire"]), passes=0
    )

    claims = {each["status"]["providerID"][-6:]: each for each in launched.kube.all(kinds.NODECLAIMS)}
    with_output, without = (
        next(each for each in claims[instance]["status"]["conditions"] if each["type"] == "Registered")
        for instance in (first, second)
    )
    name = claims[first]["metadata"]["name"]
    assert (with_output["status"], with_output["reason"]) == ("False", "RegistrationTimeout")
    assert with_output["message"] == (
        f"the node of instance {first} did not register in 15 minutes: the API server does not know the role of the "
        "instance: create an access entry of type EC2_LINUX or EC2_WINDOWS for it, or map it in aws-auth; its console "
        f"output is the document consoles/{name}.json.gz of Joiner's bucket"
    )
    assert "Read its console output" in without["message"]
    assert launched.store.get(f"consoles/{name}.json.gz")["lines"][0] == f"cloud-init: {secret}"
    assert secret not in str(launched.kube.all(kinds.EVENTS)) + str(claims)
    assert launched.ec2.asked.count("GetConsoleOutput") == 3  # the output that is there is read once
    assert launched.kube.get(kinds.NODEPOOLS, "default")["status"]["lastRegistrations"] == ["RegistrationTimeout"] * 2


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (lost, "(ec2:GetConsoleOutput: ReadTimeoutError)"),
        (lambda operation: refused(operation, "RequestLimitExceeded"), "(ec2:GetConsoleOutput: RequestLimitExceeded)"),
    ],
    ids=["no answer", "throttled"],
)
def test_an_ec2_that_does_not_answer_about_consoles_is_asked_once_in_a_sweep_and_three_times_for_a_claim(
    failed: SimulatedCluster, error: Callable[[str], Exception], trouble: str
) -> None:
    failed.ec2.fault = failing("GetConsoleOutput", error)

    answers = [failed.survey(f"s{number}")[1] for number in range(1, 9)]

    assert [retired(answer) for answer in answers] == [["never-joined"] * 2] * 8
    assert [[trouble in reason for reason in answer["reasons"] if "console" in reason] for answer in answers] == [
        *[[True]] * 6,
        [],
        [],
    ]
    assert failed.ec2.asked.count("GetConsoleOutput") == 6
    assert list(consoles_of(failed).values()) == [(3, "")] * 2


def test_a_refused_console_output_does_not_keep_that_of_the_next_instance_from_being_read(
    failed: SimulatedCluster,
) -> None:
    failed.ec2.fault = failing("GetConsoleOutput", lambda operation: refused(operation, "UnauthorizedOperation"))

    _, answer = failed.survey("s1")

    assert retired(answer) == ["never-joined"] * 2
    assert [reason for reason in answer["reasons"] if "console" in reason] == [
        f"the console output of instance {instance} could not be read (ec2:GetConsoleOutput: UnauthorizedOperation)"
        for instance in sorted(failed.ec2.instances)
    ]


@pytest.mark.parametrize(
    ("bucket", "why"),
    [(RefusingBucket(), "PutObject: AccessDenied"), (SilentBucket(), "ReadTimeoutError")],
    ids=["refuses", "no answer"],
)
def test_a_bucket_that_keeps_no_console_output_ends_no_survey_and_is_reported(
    failed: SimulatedCluster, bucket: Any, why: str
) -> None:
    failed.optional = OptionalCalls(Ec2(failed.ec2), Store(bucket, "decisions"))

    _, answer = failed.survey("s1")

    first = min(failed.ec2.instances)
    assert retired(answer) == ["never-joined"] * 2
    assert [reason for reason in answer["reasons"] if "stored" in reason and "console" in reason] == [
        f"the console output of instance {first} could not be stored ({why})"
    ]
    assert sorted(consoles_of(failed).values()) == [(1, "")]


def test_a_bucket_that_keeps_no_instances_ends_no_survey(failed: SimulatedCluster) -> None:
    failed.optional = OptionalCalls(Ec2(failed.ec2), Store(RefusingBucket(), "decisions"))
    seen, _ = failed.survey("s1")

    assert seen["drift"]["due"]
    _, answer = failed.survey("s2")
    assert answer["described"] == ""
    assert "the instances for the detection of drift could not be stored (PutObject: AccessDenied)" in answer["reasons"]
    assert retired(answer) == ["never-joined"] * 2


def test_without_time_for_another_call_no_console_output_is_read_and_no_instance_is_named(
    failed: SimulatedCluster,
) -> None:
    for instance in failed.ec2.instances.values():
        instance["Tags"] = [tag for tag in instance["Tags"] if tag["Key"] != NODECLAIM]
    before = len(failed.ec2.asked)
    failed.optional = OptionalCalls(Ec2(failed.ec2), failed.store, TimeLeft(lambda: RESERVE - 1))

    _, answer = failed.survey("s1")

    assert retired(answer) == ["never-joined"] * 2
    assert not {"GetConsoleOutput", "CreateTags"} & set(failed.ec2.asked[before:])
    failed.optional = OptionalCalls(Ec2(failed.ec2), failed.store, TimeLeft(lambda: RESERVE + 1))
    failed.survey("s2")
    assert {"GetConsoleOutput", "CreateTags"} <= set(failed.ec2.asked[before:])


def test_the_calls_for_one_console_output_fit_into_the_reserve_of_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    config = environment.single_try_client("ec2").meta.config

    assert config.retries["total_max_attempts"] == 1
    calls = 3  # the latest output, the output of types without Nitro, and the document
    assert calls * (config.connect_timeout + config.read_timeout) <= RESERVE
