"""Launches that nobody can read, as after a rollback to an earlier version.

Their claims are in flight as long as such a record exists: their pods get no other node. So a record is deleted when
EC2 has shown no instance of the launch for a quarter of an hour. The next scale-up deletes its claims and plans their
pods again.

A launch that has an instance keeps its record: garbage collection would end an instance that a later version can read.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from aws_lambda_powertools import Logger

from joiner.adapters.launch_records import LaunchRecords
from joiner.adapters.ledger_items import LaunchRecord
from joiner.lifecycle.checks.instance_survey import SeenInstance

logger = Logger(child=True)

FORGOTTEN_AFTER: Final = 15 * 60
"""Seconds without an instance. An execution that can read the record, of another version, ends or renews its lease in
much less, and EC2 shows a new instance within seconds."""

OF_LAUNCHES: Final = "launch/"
"""The start of the id of an absence. Those of instances and nodes have none."""


def find_absent_launches(
    launches: Iterable[LaunchRecord], instances: Mapping[str, SeenInstance]
) -> dict[str, LaunchRecord]:
    """Return the unreadable launches of which EC2 shows no instance, by the id of their absence."""
    seen = {each.launch for each in instances.values() if not each.gone}
    return {f"{OF_LAUNCHES}{each.id}": each for each in launches if each.unreadable and each.id not in seen}


def forget_launches(
    ledger: LaunchRecords, absent: Mapping[str, LaunchRecord], since: Mapping[str, int], now: int
) -> list[str]:
    """Delete the records of the launches that have been absent long enough at `now`; return what was done."""
    done = []
    for key, launch in sorted(absent.items()):
        if now - since.get(key, now) >= FORGOTTEN_AFTER:
            ledger.forget_launch(launch.id)
            done.append(f"launch {launch.id} could not be read and has no instance: its record is deleted")
            logger.warning(done[-1], nodeclaims=list(launch.claims), reason=launch.unreadable)
    return done
