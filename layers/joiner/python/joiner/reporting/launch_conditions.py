"""The condition ``Launched`` of standalone claims without an instance: why, and what a user can do.

A claim of a scale-up is deleted if EC2 has no capacity for it, and its pods are planned again. A standalone claim is
the object of a user, so it stays and is tried again.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from joiner.launching import LaunchOutcome
from joiner.names import EXECUTION, LEASE
from joiner.planning import Plan, Snapshot
from joiner.planning.inputs.claim_pools import CLAIMS_OF_A_PLAN
from joiner.pools import InvalidManifest, NodeClaim
from joiner.pools.pool_status import MESSAGE_LIMIT
from joiner.pools.standalone_claims import find_claims_to_launch
from joiner.reporting.events import Event, Subject
from joiner.reporting.launch_events import list_shortages

if TYPE_CHECKING:  # most functions group no launches, and start without that module
    from joiner.launching.launch_grouping import RefusedClaim

INSUFFICIENT_CAPACITY: Final = "InsufficientCapacity"
TURNS: Final = (
    f"More than {CLAIMS_OF_A_PLAN} NodeClaims of users wait for their launch, and a plan takes {CLAIMS_OF_A_PLAN}: "
    "first those that no plan has refused, then the others in turn. Correct or delete those that cannot be launched"
)
"""The end of the message while claims take turns."""
REBUILT_WITHIN: Final = timedelta(minutes=10)
"""Time in which a sweep writes the status of a claim that it rebuilt: a sweep that fails is followed by others."""


def with_problems(claim: NodeClaim, problems: Iterable[InvalidManifest], at: datetime) -> NodeClaim:
    """Return the claim with the reason why no plan launches it."""
    own = [problem for problem in problems if problem.object == claim.key and problem.severity != "info"]
    errors = [problem for problem in own if problem.severity == "error"]
    message = "; ".join(dict.fromkeys(problem.message for problem in errors or own))
    reason = "ValidationFailed" if errors else "NotLaunchable"
    return _unlaunched(claim, reason, message or "no plan has a node for it", at)


def with_refusal(claim: NodeClaim, refusal: "RefusedClaim", at: datetime) -> NodeClaim:
    """Return the claim with the reason why EC2 cannot be asked for its instance."""
    return _unlaunched(claim, refusal.reason, refusal.message, at)


def with_outcome(claim: NodeClaim, outcome: LaunchOutcome, at: datetime) -> NodeClaim:
    """Return the claim with EC2's reason; the next plan tries other offerings, or the same later."""
    for failure in outcome.failed:
        message = f"EC2 refused: {failure.message} ({failure.code}). {failure.remedy}"
        return _unlaunched(claim, failure.reason, message, at)
    if outcome.short:
        message = f"EC2 is short of {list_shortages(outcome)}. Other offerings are tried now, and these again later"
        return _unlaunched(claim, INSUFFICIENT_CAPACITY, message, at)
    return _unlaunched(
        claim, "RequestLimitExceeded", "EC2 throttles the account's launches: the launch is tried again", at
    )


def with_turns(claim: NodeClaim, at: datetime) -> NodeClaim:
    """Return the claim with a condition that tells that claims take turns, because more of them wait than a plan takes.
    A second call changes nothing.
    """
    found = claim.conditions["Launched"]
    if found.message.endswith(TURNS):
        return claim
    if found.status != "False":
        return claim.with_condition("Launched", "Unknown", "AwaitingTurn", TURNS, at=at)
    message = found.message[: MESSAGE_LIMIT - len(TURNS) - 2]
    return _unlaunched(claim, found.reason, f"{message}. {TURNS}", at)


def explain_unlaunched_claims(
    world: Snapshot,
    plan: Plan,
    problems: Sequence[InvalidManifest],
    refusals: "Mapping[str, RefusedClaim]",
    at: datetime,
) -> tuple[list[NodeClaim], list[NodeClaim]]:
    """Return the standalone claims of the snapshot that the plan does not launch, with the reason, and all standalone
    claims whose condition changes.

    ``refusals`` gives, by the claim's key, why EC2 cannot be asked. Claims that take turns have no reason of their own.
    """
    planned = {node.pool for node in plan.nodes}
    standing = {pool.claim for pool in world.pools if pool.claim}
    found = []
    for claim in (each for each in world.claims if each.key in standing):
        if claim.key in refusals:
            found.append(with_refusal(claim, refusals[claim.key], at))
        elif claim.key not in planned:
            found.append(with_problems(claim, problems, at))
    left_out = [each for each in find_claims_to_launch(world.claims, world.entering) if each.key not in standing]
    if left_out:
        found = [with_turns(each, at) for each in found]
    changed = [each for each in (*found, *(with_turns(one, at) for one in left_out)) if each not in world.claims]
    return found, changed


def report_unlaunched(claim: NodeClaim) -> Event:
    """Return the event of a claim that no plan launches."""
    found = claim.conditions["Launched"]
    return Event(Subject.claim(claim), found.reason, "Validate", found.message, "Warning")


def report_copied(claim: NodeClaim) -> Event:
    """Return the event of a standalone claim that had the annotations of a scale-up which did not write it."""
    note = (
        f"Its annotations {LEASE} and {EXECUTION} are removed: no scale-up wrote this claim. It is launched as a claim "
        "that a user created"
    )
    return Event(Subject.claim(claim), "AnnotationsRemoved", "Adopt", note)


def report_undeleted(claim: NodeClaim, reason: str) -> Event:
    """Return the event of a claim that was never launched, and whose deletion the API server refuses."""
    note = (
        f"It was never launched, and the API server refused its deletion: {reason}. The next scale-up tries again. Its "
        "pods do not wait for it"
    )
    return Event(Subject.claim(claim), "ClaimNotDeleted", "Launch", note, "Warning")


def report_rebuilt_without_node(claims: Iterable[NodeClaim], at: datetime) -> list[Event]:
    """Return an event for each claim that a sweep seems to have rebuilt, and that got no node since. Either a user
    copied it, or its status cannot be written."""
    note = (
        f"It is not launched: its annotation {EXECUTION} marks it as the claim of a node that exists, and no node "
        "became its own. Remove the annotation to have the claim launched"
    )
    return [
        Event(Subject.claim(claim), "NotLaunchable", "Validate", note, "Warning")
        for claim in claims
        if EXECUTION in claim.annotations and not (claim.lease or claim.provider_id or claim.deleting)
        if claim.created is not None and at - claim.created >= REBUILT_WITHIN
    ]


def _unlaunched(claim: NodeClaim, reason: str, message: str, at: datetime) -> NodeClaim:
    return claim.with_condition("Launched", "False", reason, message[:MESSAGE_LIMIT], at=at)
