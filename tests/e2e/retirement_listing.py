"""Lists the retirements of a deployed stack, from what *Begin retirement* returned in the executions of both machines.

A requested retirement is none yet: it may wait, and is left out if pods have come to the node meanwhile.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from joiner_local.demo.execution_listing import events, executions
from tests.e2e.stack_actions import Actor

BEGINNING: Final = frozenset({"Begin retirement", "Begin under the lease"})
"""The states in which a retirement begins."""


def retirements_since(actor: Actor, began: datetime) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """Yield each claim (claim, instance, reason) whose retirement began in an execution that started after `began`,
    with the time at which it had begun.
    """
    world = actor.world
    for each in (*executions(world, world.retire_arn), *executions(world, world.retire_empty_arn)):
        if each["startDate"] >= began:
            yield from begun_claims(actor, each["executionArn"])


def begun_claims(actor: Actor, arn: str) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """Yield the claims whose retirement began in an execution, each with the time at which it had begun."""
    for event in events(actor.world, arn):
        left = event.get("stateExitedEventDetails", {})
        if left.get("name") in BEGINNING:
            # An error leads on without an answer
            for wave in json.loads(left.get("output", "{}")).get("waves", ()):
                yield from ((event["timestamp"], claim) for claim in wave)


def names_of_begun_claims(actor: Actor, arn: str) -> set[str]:
    return {str(claim["claim"]) for _, claim in begun_claims(actor, arn)}
