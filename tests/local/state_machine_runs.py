"""State machines that tests define, run on the local Step Functions, and read the result of."""

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.local.running_aws import RunningAws, eventually

SDK: Final = "arn:aws:states:::aws-sdk"
OPTIMIZED: Final = "arn:aws:states:::"


def machine(states: Mapping[str, Any], **top: Any) -> str:
    """Return a definition whose states follow each other in the written order, unless they name a next state."""
    names = list(states)
    written = {}
    for name, following in zip(names, [*names[1:], None], strict=True):
        state = dict(states[name])
        if state["Type"] not in ("Succeed", "Fail", "Choice") and not {"Next", "End"} & state.keys():
            state |= {"Next": following} if following else {"End": True}
        written[name] = state
    return json.dumps({"QueryLanguage": "JSONata", "StartAt": names[0], "States": written, **top})


class Sfn:
    """Step Functions for one test: short methods to run a machine and to read its result."""

    def __init__(self, aws: RunningAws) -> None:
        self.aws = aws
        self.api = aws.client("stepfunctions")
        self.role = aws.role("states.amazonaws.com")

    def create(self, definition: str, kind: str = "STANDARD", **more: Any) -> str:
        name = self.aws.fresh("machine")
        arn: str = self.api.create_state_machine(
            name=name, definition=definition, roleArn=self.role, type=kind, **more
        )["stateMachineArn"]
        return arn

    def start(self, arn: str, given: Any = None, **more: Any) -> str:
        execution: str = self.api.start_execution(stateMachineArn=arn, input=json.dumps(given), **more)["executionArn"]
        return execution

    def end(self, execution: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            described: dict[str, Any] = self.api.describe_execution(executionArn=execution)
            return described if described["status"] != "RUNNING" else None

        return eventually(look)

    def run(self, states: Mapping[str, Any], given: Any = None) -> Any:
        """Run a machine that must succeed; return its output."""
        ended = self.end(self.start(self.create(machine(states)), given))
        assert ended["status"] == "SUCCEEDED", ended
        return json.loads(ended["output"])

    def events(self, execution: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self.api.get_execution_history(executionArn=execution, maxResults=1000)["events"]
        return events

    def wait_for(self, execution: str, event: str) -> None:
        eventually(lambda: [each for each in self.events(execution) if each["type"] == event])


def await_nodes(table: str, wave: str) -> dict[str, Any]:
    return {
        "Type": "Task",
        "Resource": f"{SDK}:dynamodb:updateItem.waitForTaskToken",
        "Arguments": {
            "TableName": table,
            "Key": {"kind": {"S": "WAVE"}, "id": {"S": wave}},
            "UpdateExpression": "SET wakeToken = :token",
            "ExpressionAttributeValues": {":token": {"S": "{% $states.context.Task.Token %}"}},
        },
    }
