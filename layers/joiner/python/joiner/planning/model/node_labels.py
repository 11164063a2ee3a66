"""The labels of new nodes: those that the pool, its class, the instance type or the place decides, and those that the
pool leaves open.
"""

import re
from collections.abc import Mapping
from typing import Final

from joiner import names
from joiner.catalogue import InstanceType, family_labels
from joiner.pools import NodeClass, NodePool

NEW_HOST: Final = "\0new"
"""Represents the hostname of a new node: it equals no hostname that a pod requires."""

INSTANCE_LABELS: Final = re.compile(
    r"(kubernetes\.io/(arch|os|hostname)|node\.kubernetes\.io/.*|topology\..*|karpenter\.(sh|k8s\.aws)/.*)"
)
"""Labels that the instance or Joiner determines. The pool chooses the values of all other labels in its requirements.
"""


def open_keys(pool: NodePool) -> list[str]:
    """Return the labels that the pool's requirements leave open, so that each node may have another value."""
    return sorted(key for key in pool.requirements if not (INSTANCE_LABELS.fullmatch(key) or key in pool.labels))


def pool_labels(pool: NodePool) -> dict[str, str]:
    """Return the labels of every node of the pool, for all instance types."""
    own = {**pool.labels, **({names.NODEPOOL: pool.name} if pool.name else {})}
    if pool.legacy and pool.name:
        own[names.PROVISIONER] = pool.name
    if pool.class_ref.kind == "EC2NodeClass":
        own[names.NODECLASS] = pool.class_ref.name
    return own


def node_labels(
    pool: NodePool, node_class: NodeClass | None, instance_type: InstanceType, zone: str, capacity_type: str
) -> dict[str, str]:
    """Return the labels of a node of this type, zone and capacity type, except those that the pool leaves open."""
    return {
        **type_labels(instance_type, pool_labels(pool)),
        **family_labels(node_class),
        **place_labels(zone, capacity_type),
    }


def type_labels(instance_type: InstanceType, of_pool: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of nodes of this type: those of the pool replace those of the type."""
    return {**instance_type.labels, **of_pool}


def place_labels(
    zone: str,
    capacity_type: str,
    *,
    zone_id: str = "",
    reservation: str = "",
    tenancy: str = names.DEFAULT_TENANCY,
) -> dict[str, str]:
    """Return the labels that depend on zone, capacity type and tenancy, and the labels of every new node."""
    region = names.region_of(zone)
    return {
        **({names.ZONE_ID: zone_id} if zone_id else {}),
        **({names.RESERVATION: reservation} if reservation else {}),
        names.ZONE: zone,
        names.CAPACITY_TYPE: capacity_type,
        names.TENANCY: tenancy,
        names.HOSTNAME: NEW_HOST,
        names.REGISTERED: "true",
        names.INITIALIZED: "true",
        **({names.REGION: region} if region else {}),
    }
