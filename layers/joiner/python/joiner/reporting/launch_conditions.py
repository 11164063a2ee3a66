"""The condition ``Launched`` of standalone claims without an instance: why, and what a user can do.

A claim of a scale-up is deleted if EC2 has no capacity for it, and its pods are planned again. A standalone claim is
the object of a user, so it stays and is tried again.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from joiner.launching import LaunchOutcome, RefusedClaim
from joiner.pools import InvalidManifest, NodeClaim
from joiner.pools.pool_status import MESSAGE_LIMIT
from joiner.reporting.events import Event, Subject
from joiner.reporting.launch_events import list_shortages, without_encoded_part

INSUFFICIENT_CAPACITY: Final = "InsufficientCapacity"


def with_problems(claim: NodeClaim, problems: Iterable[InvalidManifest], at: datetime) -> NodeClaim:
    """Return the claim with the reason why no plan launches it."""
    own = [problem for problem in problems if problem.object == claim.key and problem.severity != "info"]
    errors = [problem for problem in own if problem.severity == "error"]
    message = "; ".join(dict.fromkeys(problem.message for problem in errors or own))
    reason = "ValidationFailed" if errors else "NotLaunchable"
    return _unlaunched(claim, reason, message or "no plan has a node for it", at)


def with_refusal(claim: NodeClaim, refusal: RefusedClaim, at: datetime) -> NodeClaim:
    """Return the claim with the reason why EC2 cannot be asked for its instance."""
    return _unlaunched(claim, refusal.reason, refusal.message, at)


def with_outcome(claim: NodeClaim, outcome: LaunchOutcome, at: datetime) -> NodeClaim:
    """Return the claim with EC2's reason; the next plan tries other offerings, or the same later."""
    for failure in outcome.failed:
        message = f"EC2 refused: {without_encoded_part(failure.message)} ({failure.code}). {failure.remedy}"
        return _unlaunched(claim, failure.reason, message, at)
    if outcome.short:
        message = f"EC2 is short of {list_shortages(outcome)}. Other offerings are tried now, and these again later"
        return _unlaunched(claim, INSUFFICIENT_CAPACITY, message, at)
    return _unlaunched(
        claim, "RequestLimitExceeded", "EC2 throttles the account's launches: the launch is tried again", at
    )


def report_unlaunched(claim: NodeClaim) -> Event:
    """Return the event of a claim that no plan launches."""
    found = claim.conditions["Launched"]
    return Event(Subject.claim(claim), found.reason, "Validate", found.message, "Warning")


def _unlaunched(claim: NodeClaim, reason: str, message: str, at: datetime) -> NodeClaim:
    return claim.with_condition("Launched", "False", reason, message[:MESSAGE_LIMIT], at=at)
