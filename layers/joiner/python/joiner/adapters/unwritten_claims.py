"""Claims whose writes failed, from the records of their launches and assignments."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from joiner.adapters.item_reading import BROKEN
from joiner.adapters.ledger_items import Assignment, LaunchRecord
from joiner.launching import LaunchOutcome, PairedInstance
from joiner.lifecycle.failed_writes import FailedWrites
from joiner.names import CAPACITY_TYPE, CLAIM_RESOURCES, INSTANCE_TYPE, ZONE
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
    failing = (launch for launch in launches if launch.failed_writes.tries)
    return {claim: one.instance_id for claim, one in find_launched(failing).items()}


def find_launched(launches: Iterable[LaunchRecord]) -> dict[str, PairedInstance]:
    """Return, by claim, the instances of closed launches. An outcome that cannot be read has none."""
    found: dict[str, PairedInstance] = {}
    for launch in launches:
        if launch.closed:
            with suppress(*BROKEN):
                found |= {one.claim: one for one in LaunchOutcome.from_json(launch.outcome).launched}
    return found


def list_unlaunched(claims: Iterable[NodeClaim], names: Collection[str]) -> list[str]:
    """Return the names of the claims among `names` that do not have the outcome of their launch: a launch is unrecorded
    until all its claims have it."""
    return [claim.name for claim in claims if claim.name in names and not claim.launched]


def with_launched(
    lists: Mapping[str, Sequence[Mapping[str, Any]]], launched: Mapping[str, PairedInstance]
) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return the lists with the instance of each of these claims, whose outcome is not on them, and its labels.

    So limits and ceilings count the whole instance, once with its node: a claim requests less.
    """
    here = [plural for plural in CLAIM_RESOURCES if launched and plural in lists]
    return {**lists, **{plural: [_with_instance(each, launched) for each in lists[plural]] for plural in here}}


def _with_instance(claim: Mapping[str, Any], launched: Mapping[str, PairedInstance]) -> Mapping[str, Any]:
    metadata, status = claim["metadata"], claim.get("status") or {}
    one = launched.get(metadata["name"])
    if one is None or status.get("providerID"):  # of an unrecorded launch, most claims may have their outcome
        return claim
    place = {INSTANCE_TYPE: one.instance_type, ZONE: one.zone, CAPACITY_TYPE: one.capacity_type}
    return {
        **claim,
        "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **place}},
        "status": {**status, "providerID": f"aws:///{one.zone}/{one.instance_id}"},
    }


def list_failed_writes(launches: Iterable[LaunchRecord], assignments: Iterable[Assignment]) -> dict[str, FailedWrites]:
    """Return, by claim, the failed writes of an outcome and the failed deletions."""
    undeleted = {each.claim: each.failed_writes for each in assignments}
    unrecorded = {name: each.failed_writes for each in launches for name in {*each.claims}.difference(each.counted)}
    return {claim: failed for claim, failed in {**undeleted, **unrecorded}.items() if failed.tries}
