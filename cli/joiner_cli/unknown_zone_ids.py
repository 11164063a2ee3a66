"""Requirements on zone IDs in plans without a cluster: only the status of a class has the IDs of its zones.

A cluster knows them and may launch these nodes. A plan without them must not say that a pod cannot run.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from joiner import names
from joiner.cluster import Pod, Requirements
from joiner.planning import PendingPod, Plan, Reason, Snapshot
from joiner.pools import InvalidManifest, NodePool, ResolvedNodeClass
from joiner.pools.codecs.manifest_fields import format_value

NO_IDS: Final = "the IDs of zones are not known here: a cluster has them in the status of the class (subnets)"
ZONE_ID_POD: Final = f"the pod requires {names.ZONE_ID}, and {NO_IDS}"

Classes = Mapping[str, ResolvedNodeClass]


def close_zone_id_pools(snapshot: Snapshot, classes: Classes) -> Snapshot:
    """Return the snapshot without nodes of the pools that require zone IDs which are not known, and with a warning on
    each pool that requires zone IDs which are unknown or which no subnet of its class has."""
    closed, problems = dict[str, str](), list[InvalidManifest]()
    for pool in snapshot.pools:
        if not _requires_id(pool.requirements):
            continue
        values = pool.requirements.on(names.ZONE_ID)
        if _lacks_ids(pool, classes):
            closed[pool.key] = f"it requires {names.ZONE_ID} {values}, and {NO_IDS}"
            remedy = f"{NO_IDS}; the plan has no nodes of this pool, and these values are not checked"
        elif not (known := _known_ids(pool, classes)) or any(one in values for one in known):
            continue
        else:
            remedy = f"no subnet of {pool.class_ref.key} is in such a zone; there are {', '.join(sorted(known))}"
        listed = format_value(", ".join(values) if values.finite else str(values))
        problems.append(InvalidManifest(pool.key, pool.requirement_field(names.ZONE_ID), listed, remedy, "warning"))
    return replace(
        snapshot,
        closed_pools={**closed, **snapshot.closed_pools},
        problems=(*snapshot.problems, *problems),
    )


def report_unknown_zone_ids(made: Plan, snapshot: Snapshot, classes: Classes) -> Plan:
    """Return the plan with the unknown zone IDs as the reason, where nothing else is known to exclude a pod."""
    pods = {pod.key: pod for pod in snapshot.pods}
    lacking = {pool.name for pool in snapshot.pools if _lacks_ids(pool, classes)}
    pending = tuple(
        PendingPod(one.pod, tuple(_without_id(each, lacking) for each in one.reasons))
        if one.pod in pods and _pod_requires_id(pods[one.pod])
        else one
        for one in made.pending
    )
    return replace(made, pending=pending)


def _without_id(reason: Reason, lacking: set[str]) -> Reason:
    of_pod = f"the pod wants {names.ZONE_ID}" in reason.reason
    return Reason(reason.pool, ZONE_ID_POD) if of_pod and reason.pool in lacking else reason


def _pod_requires_id(pod: Pod) -> bool:
    alternatives = pod.constraints.on_new_nodes()
    return bool(alternatives) and all(map(_requires_id, alternatives))


def _requires_id(requirements: Requirements) -> bool:
    """Return whether no node without the label meets the requirements."""
    return not Requirements({names.ZONE_ID: requirements.on(names.ZONE_ID)}).allow({})


def _lacks_ids(pool: NodePool, classes: Classes) -> bool:
    resolved = classes.get(pool.class_ref.key)
    return resolved is not None and any(not subnet.zone_id for subnet in resolved.subnets)


def _known_ids(pool: NodePool, classes: Classes) -> set[str]:
    resolved = classes.get(pool.class_ref.key)
    return {subnet.zone_id for subnet in resolved.subnets} if resolved else set()
