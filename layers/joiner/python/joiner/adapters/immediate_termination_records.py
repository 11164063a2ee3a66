"""Record that an instance ended at its launch, before a replacement is launched.

handle_interruption (after an event of EventBridge) and survey_instances (at the next sweep) both call this module; the
first call records it.
"""

from datetime import datetime

from joiner.adapters.ec2_instances import Instance
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import OfferingKey
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.immediate_terminations import FailureAtLaunch, find_launch_failure


def read_launch_failure(instance: Instance, now: datetime) -> FailureAtLaunch | None:
    """Return why this instance ended at its launch; None if it did not."""
    return find_launch_failure(
        instance.id,
        code=instance.state_code,
        message=instance.state_message,
        ended=not instance.alive,
        launched_at=datetime.fromisoformat(instance.launched_at) if instance.launched_at else None,
        tags=instance.tags,
        now=now,
    )


def record_launch_failure(
    ledger: Ledger, retirements: Retirements, instance: Instance, claim: str, now: datetime
) -> FailureAtLaunch | None:
    """Count the failure for the instance's node class or offering, and add the reason to its claim's retirement; None
    if it did not end at its launch.
    """
    found = read_launch_failure(instance, now)
    if found is None:
        return None
    at = int(now.timestamp())
    offering = OfferingKey(instance.capacity_type, instance.instance_type, instance.zone_of_offering)
    if found.scope:
        launched = int(datetime.fromisoformat(instance.launched_at).timestamp())
        ledger.back_off(found.scope, found.explanation, at, launched=launched, image=instance.image)
    else:
        standing = ledger.back_off(offering.id, found.explanation, at)
        ledger.mark_unavailable(offering, standing.until, found.code)
    retirements.explain(claim, found.explanation, at)
    return found
