"""Retirements whose execution stopped, and which requests of a sweep lead to a retirement."""

from dataclasses import dataclass

from joiner.lifecycle.checks.instance_survey import SeenClaim, SeenInstance
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.lifecycle.unowned_retirements import (
    AbandonedRetirement,
    choose_most_urgent,
    choose_requests,
    find_abandoned_retirements,
    find_claims_backing_off,
    find_unknown_losses,
    list_begun_retirements,
)

NOW = 10_000


@dataclass(frozen=True)
class LedgerEntry:
    claim: str
    owner: str = ""
    attempt: int = 1
    reasons: tuple[str, ...] = ("deleted",)
    deadline: int = 0
    back_off_until: int = 0
    seen_at: int = NOW
    progressed_at: int = 0
    instance: str = ""
    since: int = 0

    def attended(self, now: int) -> bool:
        return now - self.seen_at <= 180


def seen(name: str, *, blocked: bool = False, drained_by: int = 0) -> SeenClaim:
    return SeenClaim(name, "NodeClaim", f"aws:///a/i-{name}", blocked=blocked, drained_by=drained_by)


def by_claim(*retirements: LedgerEntry) -> dict[str, LedgerEntry]:
    return {each.claim: each for each in retirements}


def request(claim: str, reason: RetirementReason = RetirementReason.DELETED) -> RetirementRequest:
    return RetirementRequest(claim, reason, f"i-{claim}")


def test_an_owner_that_ended_or_makes_no_pass_is_inactive_and_one_that_succeeded_starts_a_back_off() -> None:
    retirements = [
        LedgerEntry("kept", "runs"),
        LedgerEntry("silent", "runs", seen_at=NOW - 181),
        LedgerEntry("failed", "failed"),
        LedgerEntry("blocked", "succeeded", attempt=2),
        LedgerEntry("stalled", "succeeded", attempt=0, progressed_at=NOW - 121),
        LedgerEntry("pods leave", "succeeded", attempt=0, progressed_at=NOW - 120),
        LedgerEntry("free"),
    ]

    assert find_abandoned_retirements(retirements, running={"runs"}, succeeded={"succeeded"}, now=NOW) == [
        AbandonedRetirement("silent", "runs", 0),
        AbandonedRetirement("failed", "failed", 0),
        AbandonedRetirement("blocked", "succeeded", NOW + 120),
        AbandonedRetirement("stalled", "succeeded", NOW + 60),
        AbandonedRetirement("pods leave", "succeeded", 0),
    ]


def test_a_begun_retirement_without_an_owner_is_requested_for_its_most_urgent_reason() -> None:
    retirements = by_claim(
        LedgerEntry("a", reasons=("empty", "spot", "unknown word")),
        LedgerEntry("freed", "ended"),
        LedgerEntry("owned", "runs"),
        LedgerEntry("claim is gone"),
    )
    claims = [seen("a"), seen("freed"), seen("owned")]

    assert list_begun_retirements(claims, retirements, ["freed"], {}) == [
        request("a", RetirementReason.SPOT),
        request("freed"),
    ]


def test_a_recorded_loss_is_void_if_ec2_shows_that_the_instance_runs() -> None:
    retirements = by_claim(LedgerEntry("a", reasons=("lost",)), LedgerEntry("b", reasons=("lost", "deleted")))
    claims = [seen("a"), seen("b")]
    running = {f"i-{name}": SeenInstance(f"i-{name}", "running") for name in "ab"}

    assert list_begun_retirements(claims, retirements, [], {}) == [
        request("a", RetirementReason.LOST),
        request("b", RetirementReason.LOST),
    ]
    assert list_begun_retirements(claims, retirements, [], running) == [request("b")]


def test_a_blocked_claim_backs_off_unless_a_deadline_is_near() -> None:
    until = NOW + 60
    retirements = by_claim(
        LedgerEntry("blocked", back_off_until=until),
        LedgerEntry("not blocked", back_off_until=until),
        LedgerEntry("ended", back_off_until=NOW),
        LedgerEntry("own deadline", back_off_until=until),
        LedgerEntry("noted deadline", back_off_until=until, deadline=NOW + 300),
        LedgerEntry("of a former claim", back_off_until=until, instance="i-former"),
    )
    claims = [
        seen("blocked", blocked=True),
        seen("not blocked"),
        seen("ended", blocked=True),
        seen("own deadline", blocked=True, drained_by=NOW + 300),
        seen("noted deadline", blocked=True),
        seen("of a former claim", blocked=True),
        seen("no record", blocked=True),
    ]

    assert find_claims_backing_off(claims, retirements, NOW) == {"blocked"}


def test_of_several_requests_for_a_claim_the_most_urgent_counts_and_of_equal_ones_the_last() -> None:
    later = RetirementRequest("a", RetirementReason.SPOT, "i-a", not_before=7)
    spot, empty = request("a", RetirementReason.SPOT), request("a", RetirementReason.EMPTY)

    assert choose_most_urgent([empty, spot, empty]) == {"a": spot}
    assert choose_most_urgent([spot, later]) == {"a": later}


def test_claims_of_an_execution_or_with_an_unreadable_record_are_not_requested() -> None:
    retirements = by_claim(LedgerEntry("owned", "runs"), LedgerEntry("freed", "ended"))
    requests = [request(name) for name in ("new", "owned", "freed", "unreadable")]

    chosen = choose_requests(requests, retirements, ["freed"], unreadable={"unreadable"}, backing_off=())

    assert [each.claim for each in chosen] == ["new", "freed"]


def test_a_claim_in_back_off_is_requested_only_if_its_instance_is_lost() -> None:
    requests = [request("a"), request("b", RetirementReason.LOST)]

    assert choose_requests(requests, {}, [], unreadable=(), backing_off={"a", "b"}) == [requests[1]]


def test_an_owner_that_does_not_know_the_loss_of_its_instance_gets_it_once() -> None:
    retirements = by_claim(
        LedgerEntry("new loss", "runs"),
        LedgerEntry("known loss", "runs", reasons=("spot", "lost")),
        LedgerEntry("freed", "ended"),
        LedgerEntry("no loss", "runs"),
        LedgerEntry("owner of a former claim", "runs", instance="i-former"),
    )
    names = ("new loss", "known loss", "freed", "owner of a former claim")
    lost = [request(name, RetirementReason.LOST) for name in names]

    assert find_unknown_losses([*lost, request("no loss")], retirements, ["freed"]) == ["new loss"]
