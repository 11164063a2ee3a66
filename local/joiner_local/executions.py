"""Executions as they are seen from outside: those of Standard machines by the API, those of Express ones by the local AWS's own word.

No API of AWS tells of Express executions; there they are read in the machine's log group, and in the console from it.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from joiner.adapters.payload import is_express

RUNNING = "RUNNING"


class Deployed(Protocol):
    """What there is to ask."""

    @property
    def retire_empty_arn(self) -> str: ...
    def client(self, service: str) -> Any: ...
    def knob(self, name: str, /, **request: object) -> Mapping[str, Any]: ...


def executions(world: Deployed, machine: str) -> Iterator[Mapping[str, Any]]:
    """All of a machine, each as ListExecutions tells it, and its input and output if the machine is Express."""
    if machine == world.retire_empty_arn:
        yield from (_with_moments(each) for each in world.knob("express-executions", stateMachineArn=machine)["executions"])
        return
    for page in world.client("stepfunctions").get_paginator("list_executions").paginate(stateMachineArn=machine):
        yield from page["executions"]


def execution(world: Deployed, arn: str) -> Mapping[str, Any]:
    """One, as DescribeExecution tells it."""
    if is_express(arn):
        return _express(world, arn)
    described: Mapping[str, Any] = world.client("stepfunctions").describe_execution(executionArn=arn)
    return described


def events(world: Deployed, arn: str) -> list[Mapping[str, Any]]:
    """Its history."""
    if is_express(arn):
        return [{**each, "timestamp": _moment(each["timestamp"])} for each in _express(world, arn)["events"]]
    pages = world.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=arn)
    return [event for page in pages for event in page["events"]]


def _express(world: Deployed, arn: str) -> Mapping[str, Any]:
    told = world.knob("express-executions", stateMachineArn=world.retire_empty_arn, executionArn=arn)["executions"]
    return _with_moments(told[0])


def _with_moments(said: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**said, **{key: _moment(said[key]) for key in ("startDate", "stopDate") if key in said}}


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
