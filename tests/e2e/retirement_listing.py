"""Lists the retirements of a deployed stack, from the inputs of the executions of RETIRE."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from joiner_local.demo.execution_listing import execution, executions
from tests.e2e.stack_actions import Actor


def retirements_since(actor: Actor, began: datetime) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """Yield the start of each retirement that started after `began`, with each of its claims (claim, instance,
    reason).
    """
    world = actor.world
    for each in (*executions(world, world.retire_arn), *executions(world, world.retire_empty_arn)):
        if each["startDate"] >= began:
            described = execution(world, each["executionArn"])
            yield from ((each["startDate"], claim) for claim in json.loads(described["input"])["claims"])
