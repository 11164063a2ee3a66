"""Copied claims: manifests of users with the annotations that a scale-up writes into its own claims.

`kubectl get nodeclaim -o yaml` shows the annotations, and a claim that is created from such a manifest has them, too.
The ledger shows which claims a scale-up wrote: each has an assignment before it exists, and keeps it until its node
takes pods. A claim without one is a claim of a user, whatever its annotations are, and is read without them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from joiner.names import CLAIM_RESOURCES, EXECUTION, LEASE

Manifest = Mapping[str, Any]
Lists = Mapping[str, Sequence[Manifest]]

RECORDS: Final = (LEASE, EXECUTION)
"""The annotations by which a scale-up finds the claims that it wrote."""


def find_copied_claims(lists: Lists, recorded: Collection[str]) -> frozenset[str]:
    """Return the names of claims without an instance that have a lease and are not in the ledger.

    `recorded` names the claims that have an assignment or an unrecorded launch.

    >>> copy = {"metadata": {"name": "default-7f3ka", "annotations": {LEASE: "3", EXECUTION: "up-1"}}}
    >>> sorted(find_copied_claims({"nodeclaims": [copy]}, recorded=()))
    ['default-7f3ka']
    >>> sorted(find_copied_claims({"nodeclaims": [copy]}, recorded=["default-7f3ka"]))
    []
    """
    listed = (manifest for plural in CLAIM_RESOURCES for manifest in lists.get(plural) or ())
    return frozenset(str(each["metadata"]["name"]) for each in listed if _is_copied(each, recorded))


def read_as_claims_of_users(lists: Lists, recorded: Collection[str]) -> dict[str, Sequence[Manifest]]:
    """Return the lists, in which copied claims have no annotations of a scale-up."""
    without = {
        plural: [_without_records(each) if _is_copied(each, recorded) else each for each in lists[plural]]
        for plural in CLAIM_RESOURCES
        if lists.get(plural)
    }
    return {**lists, **without}


def _is_copied(manifest: Manifest, recorded: Collection[str]) -> bool:
    metadata = manifest["metadata"]
    has_instance = (manifest.get("status") or {}).get("providerID")
    return LEASE in (metadata.get("annotations") or {}) and not has_instance and metadata["name"] not in recorded


def _without_records(manifest: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    kept = {key: value for key, value in metadata["annotations"].items() if key not in RECORDS}
    return {**manifest, "metadata": {**metadata, "annotations": kept}}
