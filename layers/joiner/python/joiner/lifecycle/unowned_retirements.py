"""Retirements whose execution stopped: which ones lose their owner, and which are requested again."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from joiner.lifecycle.checks.instance_survey import SeenClaim, SeenInstance
from joiner.lifecycle.recorded_retirement import RecordedRetirement, is_about
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.lifecycle.retirement_back_off import back_off_seconds, may_back_off, progresses


class CountedRetirement(RecordedRetirement, Protocol):
    """A retirement whose executions are counted."""

    @property
    def attempt(self) -> int:
        """Return the number of executions that have begun since one of its pods left."""

    @property
    def seen_at(self) -> int:
        """Return the time of its owner's last pass, in epoch seconds."""

    @property
    def progressed_at(self) -> int:
        """Return the time of a pass in which one of its pods left, in epoch seconds; 0 if none did."""


@dataclass(frozen=True, slots=True)
class AbandonedRetirement:
    """A retirement whose owner is inactive, and the end of its back-off (epoch seconds, 0 without one)."""

    claim: str
    owner: str
    back_off_until: int


def find_abandoned_retirements(
    retirements: Iterable[CountedRetirement], running: Collection[str], succeeded: Collection[str], now: int
) -> list[AbandonedRetirement]:
    """Return the retirements with an inactive owner.

    An owner is inactive if it no longer runs, made no pass for three minutes, or must have ended. `running` are the
    executions that run, or whose state is unknown. After one that `succeeded`, the claim backs off, unless its pods
    still left at the end.
    """
    owned = [each for each in retirements if each.owner]
    left = [each for each in owned if each.owner not in running or not each.attended(now)]
    back_off = {
        each.claim: now + back_off_seconds(each.attempt)
        for each in left
        if each.owner in succeeded and not progresses(each.progressed_at, each.seen_at)
    }
    return [AbandonedRetirement(each.claim, each.owner, back_off.get(each.claim, 0)) for each in left]


def list_begun_retirements(
    claims: Iterable[SeenClaim],
    retirements: Mapping[str, RecordedRetirement],
    freed: Collection[str],
    instances: Mapping[str, SeenInstance],
) -> list[RetirementRequest]:
    """Return requests for the claims whose retirement was begun or requested and that no execution retires.

    `freed` names the claims whose retirement lost its owner now. A recorded loss is void if EC2 shows that the instance
    runs.
    """
    there = {claim.name: claim for claim in claims}
    found: list[RetirementRequest] = []
    for name, retirement in sorted(retirements.items()):
        if name not in there or (retirement.owner and name not in freed):
            continue
        if not is_about(retirement, there[name].instance, there[name].created):
            continue
        instance = instances.get(there[name].instance)
        reasons = {RetirementReason(each) for each in retirement.reasons if each in set(RetirementReason)}
        reasons -= {RetirementReason.LOST} if instance is not None and not instance.gone else set()
        if reasons:
            reason = max(reasons, key=lambda each: each.urgency)
            found.append(RetirementRequest(name, reason, there[name].instance))
    return found


def find_claims_backing_off(
    claims: Iterable[SeenClaim], retirements: Mapping[str, RecordedRetirement], now: int
) -> set[str]:
    """Return the claims whose last execution succeeded and whose status gives the reason that keeps their nodes."""
    blocked = ((claim, retirements[claim.name]) for claim in claims if claim.blocked and claim.name in retirements)
    return {
        claim.name
        for claim, known in blocked
        if is_about(known, claim.instance, claim.created)
        and may_back_off(known.back_off_until, (known.deadline, claim.drained_by), now)
    }


def choose_requests(
    requests: Iterable[RetirementRequest],
    retirements: Mapping[str, RecordedRetirement],
    freed: Collection[str],
    *,
    unreadable: Collection[str],
    backing_off: Collection[str],
) -> list[RetirementRequest]:
    """Return each claim that no execution retires once, with its most urgent reason.

    Of claims in back-off, only those with a lost instance are returned. `unreadable` are the claims whose record cannot
    be read: an execution may own it.
    """
    wanted = choose_most_urgent(requests)
    owned = {claim for claim, one in retirements.items() if one.owner and claim not in freed}
    return [
        each
        for claim, each in wanted.items()
        if claim not in owned
        and claim not in unreadable
        and (claim not in backing_off or each.reason is RetirementReason.LOST)
    ]


def find_unknown_losses(
    requests: Iterable[RetirementRequest], retirements: Mapping[str, RecordedRetirement], freed: Collection[str]
) -> list[str]:
    """Return the claims whose instance is lost and whose owner does not know it yet: the owner keeps the claim. The
    owner of a former claim with this name does not retire that instance.
    """
    wanted = choose_most_urgent(requests)
    return [
        claim
        for claim, one in retirements.items()
        if one.owner
        and claim not in freed
        and claim in wanted
        and wanted[claim].reason is RetirementReason.LOST
        and RetirementReason.LOST not in one.reasons
        and is_about(one, wanted[claim].instance)
    ]


def choose_most_urgent(requests: Iterable[RetirementRequest]) -> dict[str, RetirementRequest]:
    """Return the request with the most urgent reason of each claim, by claim; of equal ones the last."""
    found: dict[str, RetirementRequest] = {}
    for each in requests:
        if each.claim not in found or each.reason.urgency >= found[each.claim].reason.urgency:
            found[each.claim] = each
    return found
