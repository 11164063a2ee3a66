"""Claims whose writes failed, from the records of their launches and assignments."""

from collections.abc import Iterable
from contextlib import suppress

from joiner.adapters.item_reading import BROKEN
from joiner.adapters.ledger_items import Assignment, LaunchRecord
from joiner.launching import LaunchOutcome
from joiner.lifecycle.failed_writes import FailedWrites
from joiner.pools import NodeClaim


def list_launching_claims(launches: Iterable[LaunchRecord], claims: Iterable[NodeClaim]) -> frozenset[str]:
    """Return the claims of `launches` that are not recorded.

    A deleted claim whose outcome could not be written is none of them: nobody would retire it until the write succeeds.
    `find_unwritten_instances` gives its instance.
    """
    deleting = {claim.name for claim in claims if claim.deleting}
    return frozenset(
        name
        for launch in launches
        for name in launch.claims
        if not (launch.closed and launch.failed_writes.tries and name in deleting)
    )


def find_unwritten_instances(launches: Iterable[LaunchRecord]) -> dict[str, str]:
    """Return, by claim, the instances of launches whose outcome could not be written. One that cannot be read has none:
    garbage collection finds its instances."""
    found: dict[str, str] = {}
    for launch in launches:
        if launch.closed and launch.failed_writes.tries:
            with suppress(*BROKEN):
                found |= {one.claim: one.instance_id for one in LaunchOutcome.from_json(launch.outcome).launched}
    return found


def list_failed_writes(launches: Iterable[LaunchRecord], assignments: Iterable[Assignment]) -> dict[str, FailedWrites]:
    """Return, by claim, the failed writes of an outcome and the failed deletions."""
    undeleted = {each.claim: each.failed_writes for each in assignments}
    unrecorded = {name: each.failed_writes for each in launches for name in {*each.claims}.difference(each.counted)}
    return {claim: failed for claim, failed in {**undeleted, **unrecorded}.items() if failed.tries}
