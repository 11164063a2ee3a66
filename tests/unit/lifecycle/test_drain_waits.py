"""The end of a drain: pods that may still come, volumes that are detached, and the deadline."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from joiner.lifecycle.drain_waits import VOLUMES_AWAITED, DrainWaits
from joiner.lifecycle.draining import AT_LEAST
from joiner.lifecycle.retirement import RetirementReason, RetirementStage, RetiringClaim
from joiner.pools import NodeClaim
from tests.unit.lifecycle.joining_nodes import NOON, claim

RETIRING: Final = RetiringClaim("claim-1", RetirementReason.DELETED, node="node-1", closed_at=int(NOON.timestamp()))


def drain_waits(after: timedelta, *, of: NodeClaim | None = None, until: datetime | None = None) -> DrainWaits:
    return DrainWaits(RETIRING, of, until, NOON + after)


def test_pods_may_come_for_some_seconds_unless_the_deadline_has_come() -> None:
    second = timedelta(seconds=1)

    assert drain_waits(second).pods_may_come_until == NOON + AT_LEAST
    assert drain_waits(AT_LEAST).pods_may_come_until is None
    assert drain_waits(second, until=NOON + second).pods_may_come_until is None
    assert drain_waits(second).awaiting_pods().why == "no pod is left; one may still come"


def test_without_a_claim_volumes_are_awaited_for_a_limited_time() -> None:
    emptied = replace(RETIRING, emptied=int(NOON.timestamp()))
    before, after = (DrainWaits(emptied, None, None, NOON + wait) for wait in (timedelta(seconds=10), VOLUMES_AWAITED))

    assert before.awaits(["pv-1"])
    assert before.volumes_awaited_until == NOON + VOLUMES_AWAITED
    assert not before.awaits([])
    assert not after.awaits(["pv-1"])


def test_with_a_claim_volumes_are_awaited_until_the_deadline_of_the_drain() -> None:
    hour = timedelta(hours=1)

    assert drain_waits(hour, of=claim()).awaits(["pv-1"])
    assert drain_waits(hour, of=claim()).volumes_awaited_until is None
    assert drain_waits(hour, of=claim(), until=NOON + 2 * hour).volumes_awaited_until == NOON + 2 * hour


def test_the_wait_for_volumes_counts_from_when_the_last_pod_was_seen_gone() -> None:
    first = drain_waits(timedelta(seconds=20))
    waiting = first.awaiting(["pv-1", "pv-2", "pv-3", "pv-4"])
    later = DrainWaits(waiting, None, None, NOON + timedelta(minutes=2))

    assert waiting.stage is RetirementStage.DRAINING
    assert waiting.why == "volumes are detached: pv-1, pv-2, pv-3"
    assert later.emptied == first.now
