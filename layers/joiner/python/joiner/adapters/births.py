"""Remembers an instance that ended at its launch, before anything is launched in its place.

Both who may see it first do the same: handle_interruption, told by EventBridge, and survey_instances, at the next sweep.
"""

from datetime import datetime

from joiner.adapters.ec2 import Instance
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import Offering
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.births import Death, death_of


def death(instance: Instance, now: datetime) -> Death | None:
    """Why this instance ended at its launch; None if it did not."""
    return death_of(
        instance.id,
        code=instance.state_code,
        message=instance.state_message,
        ended=not instance.alive,
        launched_at=datetime.fromisoformat(instance.launched_at) if instance.launched_at else None,
        tags=instance.tags,
        now=now,
    )


def note_death(ledger: Ledger, retirements: Retirements, instance: Instance, claim: str, now: datetime) -> Death | None:
    """Hold back what the instance was launched from, and say why on its claim's retirement; None if it did not end at its launch."""
    found = death(instance, now)
    if found is None:
        return None
    at = int(now.timestamp())
    offering = Offering(instance.capacity_type, instance.instance_type, instance.zone)
    standing = ledger.back_off(found.scope or offering.id, found.said, at)
    if not found.scope:
        ledger.mark_unavailable(offering, standing.until, found.code)
    retirements.explain(claim, found.said, at)
    return found
