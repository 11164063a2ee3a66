"""Events of a launch: on each claim with an instance, and on the pool for capacity shortages and refusals of EC2."""

from collections.abc import Iterable

from joiner.catalogue.spot_flexibility import describe_few_choices
from joiner.catalogue.unavailable_offerings import UNAVAILABLE_SECONDS
from joiner.launching import CapacityShortage, Launch, LaunchOutcome
from joiner.launching.ec2_error_codes import REMEDIES, VCPU_QUOTA_ERRORS
from joiner.launching.vcpu_quotas import describe_quota, find_vcpu_quota
from joiner.names import SPOT
from joiner.pools import NodeClaim
from joiner.pools.node_claim import CLAIM_API_VERSION
from joiner.reporting.events import Event, Subject
from joiner.reporting.shortage_remedies import find_shortage_remedy

OFFERINGS_SHOWN = 5


def report_outcome(outcome: LaunchOutcome, launched: Iterable[NodeClaim], owner: Subject | None) -> list[Event]:
    """Return the events of one recorded launch; `owner` is the pool, or the standalone claim, that it is for."""
    events = [
        Event(
            Subject.claim(claim),
            "Launched",
            "Launch",
            f"Instance {claim.instance_id}: {claim.instance_type} in {claim.zone}, {claim.capacity_type}",
        )
        for claim in launched
    ]
    if owner is None:
        return events
    if outcome.short:
        minutes = UNAVAILABLE_SECONDS // 60
        note = (
            f"EC2 is short of {list_shortages(outcome)}. They are not requested again for {minutes} minutes; others "
            "are tried"
        )
        events.append(Event(owner, "InsufficientCapacityError", "Launch", note, "Warning"))
    for code, remedy in sorted({(short.code, _remedy(short)) for short in outcome.short}):
        if remedy:
            note = f"EC2 answered {code}, which does not end by itself. {remedy[0].upper()}{remedy[1:]}"
            events.append(Event(owner, REMEDIES[code].reason, "Launch", note, "Warning"))
    if outcome.throttled:
        note = (
            "EC2 throttles the account's launches (RequestLimitExceeded): the same request is sent "
            "again, each time after a longer wait"
        )
        events.append(Event(owner, "RequestLimitExceeded", "Launch", note, "Warning"))
    for failure in outcome.failed:
        note = f"EC2 refused: {failure.message} ({failure.code}). {failure.remedy}"
        events.append(Event(owner, failure.reason, "Launch", note, "Warning"))
    return events


def report_unrecorded(claim: NodeClaim, outcome: LaunchOutcome, reason: str) -> Event:
    """Return the event of a claim for which the API server refuses to record the outcome of its launch."""
    instance = next((one.instance_id for one in outcome.launched if one.claim == claim.name), "")
    what, waiting = (
        (f"Instance {instance} was launched for it", "its node registers")
        if instance
        else ("No instance was launched for it", "its pods get another node")
    )
    then = f"The next scale-up tries again, and {waiting} when that succeeds"
    note = f"{what}, and the API server refused to record that in the {claim.kind}: {reason}. {then}"
    return Event(Subject.claim(claim), "LaunchNotRecorded", "Launch", note, "Warning")


def list_shortages(outcome: LaunchOutcome) -> str:
    """Return the first offerings for which EC2 had no capacity, and the number of the others."""
    shown = [f"{one.instance_type} in {one.zone} ({one.capacity_type}): {one.code}" for one in outcome.short]
    more = f" and {len(shown) - OFFERINGS_SHOWN} more" if len(shown) > OFFERINGS_SHOWN else ""
    return "; ".join(shown[:OFFERINGS_SHOWN]) + more


def report_few_choices(launch: Launch, owner: Subject | None) -> list[Event]:
    """Return the event of a spot launch for which EC2 could choose among few instance types."""
    if owner is None or launch.capacity_type != SPOT:
        return []
    named = f"{owner.kind}/{owner.name}"
    note = describe_few_choices(launch.images, named, of_claim=owner.kind in CLAIM_API_VERSION)
    return [Event(owner, "FewSpotChoices", "Launch", note, "Warning")] if note else []


def _remedy(short: CapacityShortage) -> str:
    """Return the remedy of a shortage. If it is a vCPU quota, the remedy names the quota."""
    quota = find_vcpu_quota(short.instance_type, short.capacity_type) if short.code in VCPU_QUOTA_ERRORS else None
    return describe_quota(quota, short.quota) if quota else find_shortage_remedy(short.code)
