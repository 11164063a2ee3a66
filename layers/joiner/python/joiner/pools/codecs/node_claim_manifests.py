"""Reads and writes NodeClaims (karpenter.sh/v1) and Machines (karpenter.sh/v1alpha5), which become the same value.

An invalid field of a claim is ignored: the claim stands for an instance, which must not be lost because of that field.
The kinds differ in the label of the pool, the reference to the class, and the prefix of a Machine's condition types. An
inline provider has no object; its Machines refer to no template.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from joiner import names
from joiner.cluster import InvalidField, Requirement, Requirements, Resources, Taint
from joiner.pools.codecs.pool_requirements import read_min_values
from joiner.pools.conditions import Conditions
from joiner.pools.durations import format_duration, read_duration
from joiner.pools.invalid_manifests import InvalidManifest, InvalidManifests
from joiner.pools.node_claim import CLAIM_API_VERSION, LIFE, ClaimKind, NodeClaim
from joiner.pools.node_pool import CLASS_GROUP, ClassKind, NodeClassRef
from joiner.pools.timestamps import parse_timestamp

MACHINE = "Machine"


def read_node_claim(manifest: Mapping[str, Any]) -> NodeClaim:
    """Read a claim of either kind. InvalidManifests if it has no name or another kind."""
    meta, spec, status = (manifest.get(part) or {} for part in ("metadata", "spec", "status"))
    kind, name = _read_kind(manifest), meta.get("name") or ""
    labels = meta.get("labels") or {}
    pool = labels.get(names.PROVISIONER if kind == MACHINE else names.NODEPOOL, "")
    return NodeClaim(
        name=name,
        kind=kind,
        class_ref=_read_class_ref(kind, spec, pool),
        pool=pool,
        pool_uid=next(
            (owner.get("uid", "") for owner in meta.get("ownerReferences") or () if owner.get("name") == pool), ""
        ),
        requirements=_requirements(spec),
        min_values=_min_values(spec),
        requests=_resources((spec.get("resources") or {}).get("requests")),
        taints=_taints(spec.get("taints")),
        startup_taints=_taints(spec.get("startupTaints")),
        labels=labels,
        annotations=meta.get("annotations") or {},
        expire_after=read_duration(spec.get("expireAfter")),
        termination_grace_period=read_duration(spec.get("terminationGracePeriod")),
        provider_id=status.get("providerID") or "",
        image_id=status.get("imageID") or "",
        node_name=status.get("nodeName") or "",
        capacity=_resources(status.get("capacity")),
        allocatable=_resources(status.get("allocatable")),
        conditions=(conditions := _read_conditions(kind, status)),
        conditions_read=conditions,
        finalizers=tuple(meta.get("finalizers") or ()),
        created=parse_timestamp(meta.get("creationTimestamp")),
        deletion=parse_timestamp(meta.get("deletionTimestamp")),
        last_pod_event=parse_timestamp(status.get("lastPodEventTime")),
        uid=meta.get("uid", ""),
        generation=meta.get("generation", 0),
        resource_version=meta.get("resourceVersion", ""),
    )


def _read_kind(manifest: Mapping[str, Any]) -> ClaimKind:
    """Return the kind of a claim. InvalidManifests for a manifest of another kind, or without a name."""
    kind, name = str(manifest.get("kind")), (manifest.get("metadata") or {}).get("name")
    if not name or kind not in CLAIM_API_VERSION:
        remedy = "give a NodeClaim or a Machine that has a name"
        raise InvalidManifests([InvalidManifest(f"{kind}/{name}", "kind", kind, remedy)])
    return "Machine" if kind == MACHINE else "NodeClaim"


def write_node_claim(claim: NodeClaim) -> dict[str, Any]:
    """Return the manifest to create, without the status, which is a subresource."""
    meta: dict[str, Any] = {"name": claim.name, "labels": dict(claim.labels), "annotations": dict(claim.annotations)}
    if claim.finalizers:
        meta["finalizers"] = list(claim.finalizers)
    if claim.pool_uid:
        meta["ownerReferences"] = [_owner(claim)]
    spec: dict[str, Any] = {
        "requirements": claim.requirements.to_kube(),
        "resources": {"requests": claim.requests.to_kube()},
        "taints": [taint.to_kube() for taint in claim.taints],
        "startupTaints": [taint.to_kube() for taint in claim.startup_taints],
    }
    if claim.kind == MACHINE:
        if claim.class_ref.kind == "AWSNodeTemplate":
            reference = {
                "apiVersion": "karpenter.k8s.aws/v1alpha1",
                "kind": "AWSNodeTemplate",
                "name": claim.class_ref.name,
            }
            spec["machineTemplateRef"] = reference
    else:
        spec["nodeClassRef"] = {
            "group": claim.class_ref.group,
            "kind": claim.class_ref.kind,
            "name": claim.class_ref.name,
        }
        spec["expireAfter"] = format_duration(claim.expire_after)
        if claim.termination_grace_period is not None:
            spec["terminationGracePeriod"] = format_duration(claim.termination_grace_period)
    return {"apiVersion": claim.api_version, "kind": claim.kind, "metadata": meta, "spec": spec}


def write_claim_status(claim: NodeClaim) -> dict[str, Any]:
    """Return ``{"status": ...}`` with the fields that are known."""
    known = {
        "providerID": claim.provider_id,
        "imageID": claim.image_id,
        "nodeName": claim.node_name,
        "capacity": claim.capacity.to_kube(),
        "allocatable": claim.allocatable.to_kube(),
        "conditions": _write_conditions(claim),
    }
    return {"status": {key: value for key, value in known.items() if value}}


def _owner(claim: NodeClaim) -> dict[str, Any]:
    owner_kind, version = (
        ("Provisioner", "karpenter.sh/v1alpha5") if claim.kind == MACHINE else ("NodePool", "karpenter.sh/v1")
    )
    return {
        "apiVersion": version,
        "kind": owner_kind,
        "name": claim.pool,
        "uid": claim.pool_uid,
        "blockOwnerDeletion": True,
    }


def _read_class_ref(kind: ClaimKind, spec: Mapping[str, Any], pool: str) -> NodeClassRef:
    if kind == MACHINE:
        template = (spec.get("machineTemplateRef") or {}).get("name")
        return NodeClassRef("AWSNodeTemplate", template) if template else NodeClassRef("Inline", pool)
    ref = spec.get("nodeClassRef") or {}
    known: ClassKind = "EC2NodeClass"
    return NodeClassRef(known, ref.get("name", ""), ref.get("group", CLASS_GROUP))


def _read_conditions(kind: ClaimKind, status: Mapping[str, Any]) -> Conditions:
    conditions = Conditions.from_kube(status.get("conditions"))
    if kind != MACHINE:
        return conditions
    return Conditions(tuple(replace(condition, type=condition.type.removeprefix(MACHINE)) for condition in conditions))


def _write_conditions(claim: NodeClaim) -> list[dict[str, Any]]:
    if claim.kind != MACHINE:
        return claim.conditions.to_kube()
    prefixed = {name: f"{MACHINE}{name}" for name in (*LIFE, "Drifted")}
    return [
        replace(condition, type=prefixed.get(condition.type, condition.type)).to_kube()
        for condition in claim.conditions
    ]


def _requirements(spec: Mapping[str, Any]) -> Requirements:
    good: list[Requirement] = []
    for expression in spec.get("requirements") or ():
        try:
            good.append(Requirement.from_kube(expression))
        except InvalidField:
            continue  # an invalid field of a claim is ignored
    return Requirements.of(good)


def _min_values(spec: Mapping[str, Any]) -> dict[str, int]:
    listed = spec.get("requirements") or ()
    return read_min_values([one for one in listed if one.get("key") and isinstance(one.get("minValues"), int)])


def _taints(raw: Any) -> tuple[Taint, ...]:
    found = []
    for taint in raw or ():
        with suppress(InvalidField):  # an invalid field of a claim is ignored
            found.append(Taint.from_kube(taint))
    return tuple(found)


def _resources(raw: Any) -> Resources:
    try:
        return Resources.from_kube(raw or {})
    except InvalidField:
        return Resources()
