"""Claims in the cluster: `NodeClaim` is one value for the two kinds NodeClaim and Machine of the API server."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.finalizers import delete_and_release
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import Conflict, NotFound
from joiner.adapters.kube_patches import TRIES
from joiner.lifecycle.copied_claims import RECORDS
from joiner.names import LEAVING, TERMINATION_FINALIZER
from joiner.pools import (
    DeclaredObjects,
    NodeClaim,
    read_manifests,
    read_node_claim,
    write_claim_status,
    write_node_claim,
)


def kind_of(claim: NodeClaim) -> kinds.Kind:
    """Return the claim's kind in the API server."""
    return kinds.MACHINES if claim.kind == "Machine" else kinds.NODECLAIMS


def list_claims(kube: Kube) -> DeclaredObjects:
    """Return all claims of both kinds, and the errors of unreadable ones."""
    return read_manifests(each for kind in kinds.CLAIMS for each in _list_manifests(kube, kind))


def list_claims_of(kube: Kube, names: Iterable[str]) -> dict[str, NodeClaim]:
    """Return the readable claims with these names. Machines are listed only if a name is not that of a NodeClaim."""
    wanted, found = set(names), list[Mapping[str, Any]]()
    for kind in kinds.CLAIMS if wanted else ():
        found += [each for each in _list_manifests(kube, kind) if each["metadata"]["name"] in wanted]
        if len(found) == len(wanted):
            break
    return index_by_name(read_manifests(found).claims)


def _list_manifests(kube: Kube, kind: kinds.Kind) -> list[Mapping[str, Any]]:
    return [{"kind": kind.kind, "apiVersion": kind.api_version, **each} for each in kube.list(kind)]


def create_claim(kube: Kube, claim: NodeClaim) -> NodeClaim:
    """Create a claim; `AlreadyExists` if it exists."""
    return read_node_claim(kube.create(kind_of(claim), write_node_claim(claim)))


def write_adoption(kube: Kube, claim: NodeClaim) -> bool:
    """Write the finalizer and the labels of a standalone claim before its launch; a second try changes nothing.

    Annotations of a scale-up that did not write the claim are removed; return whether there were any. Raises `NotFound`
    or `Conflict` if the claim was deleted, or changed at the same time.
    """
    metadata = kube.get(kind_of(claim), claim.name)["metadata"]
    if metadata["uid"] != claim.uid or metadata.get("deletionTimestamp"):
        raise Conflict(f"{claim.key} was deleted", status=409)
    present = metadata.get("finalizers") or []
    labels = {key: value for key, value in claim.labels.items() if (metadata.get("labels") or {}).get(key) != value}
    changes: dict[str, Any] = {"labels": labels} if labels else {}
    copied = {key: None for key in RECORDS if key in (metadata.get("annotations") or {})}
    if copied:
        changes["annotations"] = copied
    if TERMINATION_FINALIZER not in present:
        changes["finalizers"] = [*present, TERMINATION_FINALIZER]
    if changes:
        changes["resourceVersion"] = metadata["resourceVersion"]
        kube.patch(kind_of(claim), claim.name, {"metadata": changes})
    return bool(copied)


def write_status(kube: Kube, claim: NodeClaim) -> NodeClaim:
    """Write the claim's status and return the claim as it is written.

    Raises:
        NotFound: the claim is gone, or another one has its name.
        Conflict: the claim changed between every read and its patch, or another writer changed the same condition to
            something else: the caller has to judge again.
    """
    return _write_status(kube, claim, write_claim_status)


def write_conditions(kube: Kube, claim: NodeClaim) -> NodeClaim:
    """Write the claim's conditions alone, as `write_status` does; one that was read and is missing now is removed."""
    return _write_status(kube, claim, _conditions_of)


def _conditions_of(claim: NodeClaim) -> dict[str, Any]:
    return {"status": {"conditions": write_claim_status(claim)["status"].get("conditions", [])}}


def _write_status(kube: Kube, claim: NodeClaim, status_of: Callable[[NodeClaim], dict[str, Any]]) -> NodeClaim:
    """Patch the status of the version that was read.

    A merge patch replaces the list of conditions, and other executions write some of them. A claim that changed is
    therefore read again, and gets the conditions that this caller changed.
    """
    current = claim if claim.resource_version else _on_newest(kube, claim)
    for _ in range(TRIES - 1):
        try:
            return _patch_status(kube, current, status_of)
        except Conflict:
            current = _on_newest(kube, claim)
    return _patch_status(kube, current, status_of)


def _patch_status(kube: Kube, claim: NodeClaim, status_of: Callable[[NodeClaim], dict[str, Any]]) -> NodeClaim:
    guard = {"metadata": {"resourceVersion": claim.resource_version}}
    return _with_changes(
        claim, kube.patch(kind_of(claim), claim.name, {**status_of(claim), **guard}, subresource="status")
    )


def _on_newest(kube: Kube, claim: NodeClaim) -> NodeClaim:
    """Return the claim with the conditions that were written since it was read, beside its own changes."""
    newest = kube.get(kind_of(claim), claim.name)
    if newest["metadata"]["uid"] != claim.uid:
        raise NotFound(f"{claim.key} is gone: another claim has its name", status=404)
    return _with_changes(claim, newest)


def _with_changes(claim: NodeClaim, manifest: Mapping[str, Any]) -> NodeClaim:
    newest = read_node_claim({"kind": claim.kind, "apiVersion": claim.api_version, **manifest})
    if conflicts := claim.find_conflicts(newest):
        raise Conflict(f"{claim.key}: condition {', '.join(conflicts)} was changed meanwhile", status=409)
    return claim.rebased(newest)


def write_metadata(kube: Kube, claim: NodeClaim) -> NodeClaim:
    """Write the claim's labels and annotations; existing ones that are not named stay. Returns the claim as it is
    written, with the conditions that others wrote meanwhile.
    """
    changes = {"metadata": {"labels": dict(claim.labels), "annotations": dict(claim.annotations)}}
    return _with_changes(claim, kube.patch(kind_of(claim), claim.name, changes))


def delete_claim(kube: Kube, claim: NodeClaim) -> None:
    """Delete a claim without an instance, whose finalizer has no work left. A missing claim is success."""
    delete_and_release(kube, kind_of(claim), claim.name, uid=claim.uid, labels={LEAVING: "true"})


def get_claim(kube: Kube, kind: str, name: str) -> NodeClaim | None:
    """Return the current state of one claim; None if it is gone."""
    of = kinds.MACHINES if kind == "Machine" else kinds.NODECLAIMS
    try:
        return read_node_claim({"kind": of.kind, "apiVersion": of.api_version, **kube.get(of, name)})
    except NotFound:
        return None


def index_by_name(claims: Iterable[NodeClaim]) -> dict[str, NodeClaim]:
    """Return claims by their names, which are unique over both kinds because they end in a digest."""
    return {claim.name: claim for claim in claims}
