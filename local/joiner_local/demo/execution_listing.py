"""List executions as seen from outside: those of Standard machines through the API, those of Express machines through a
knob.

No API of AWS lists Express executions; on AWS they are read in the machine's log group, also by the console.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from joiner.adapters.payload import is_express

RUNNING = "RUNNING"


class ExecutionSource(Protocol):
    """What the listing needs of a deployed stack."""

    @property
    def retire_empty_arn(self) -> str: ...
    def client(self, service: str) -> Any: ...
    def knob(self, name: str, /, **request: object) -> Mapping[str, Any]: ...


def executions(world: ExecutionSource, machine: str) -> Iterator[Mapping[str, Any]]:
    """Yield all executions of a machine, each as ListExecutions describes it; with input and output if the machine is
    Express.
    """
    if machine == world.retire_empty_arn:
        yield from (
            _with_moments(each) for each in world.knob("express-executions", stateMachineArn=machine)["executions"]
        )
        return
    for page in world.client("stepfunctions").get_paginator("list_executions").paginate(stateMachineArn=machine):
        yield from page["executions"]


def execution(world: ExecutionSource, arn: str) -> Mapping[str, Any]:
    """Return one execution as DescribeExecution describes it."""
    if is_express(arn):
        return _express(world, arn)
    described: Mapping[str, Any] = world.client("stepfunctions").describe_execution(executionArn=arn)
    return described


def events(world: ExecutionSource, arn: str) -> list[Mapping[str, Any]]:
    """Return the history of an execution."""
    if is_express(arn):
        return [{**each, "timestamp": _moment(each["timestamp"])} for each in _express(world, arn)["events"]]
    pages = world.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=arn)
    return [event for page in pages for event in page["events"]]


def _express(world: ExecutionSource, arn: str) -> Mapping[str, Any]:
    answer = world.knob("express-executions", stateMachineArn=world.retire_empty_arn, executionArn=arn)["executions"]
    return _with_moments(answer[0])


def _with_moments(text: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**text, **{key: _moment(text[key]) for key in ("startDate", "stopDate") if key in text}}


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
