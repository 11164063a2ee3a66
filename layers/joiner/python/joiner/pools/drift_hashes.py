"""Digests of the fields of a pool and of its class that a node is made from.

Claims store both digests, so that drift can be detected later. As in Karpenter ("Drift"), fields that select existing
resources are omitted: requirements and selector terms are compared with the properties of the node, not with their
earlier text. The digests are specific to Joiner and have a version; digests of different versions are not compared.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from joiner import names
from joiner.pools.node_class import NodeClass
from joiner.pools.node_pool import NodePool

VERSION = "joiner-v1"
OF_POOL = (
    "labels",
    "annotations",
    "taints",
    "startup_taints",
    "class_ref",
    "kubelet",
    "expire_after",
    "termination_grace_period",
)
OF_CLASS = (
    "role",
    "instance_profile",
    "block_devices",
    "user_data",
    "tags",
    "metadata_options",
    "kubelet",
    "instance_store_policy",
    "detailed_monitoring",
    "associate_public_ip_address",
    "context",
)
OF_CLASS_IF_SET = (
    "network_interfaces",
    "connection_tracking",
    "nested_virtualization",
    "placement_group",
    "launch_template",
)
"""Fields that count only if they are set: a class without them keeps the digest that its nodes have."""


def build_hash_annotations(pool: NodePool, node_class: NodeClass | None) -> dict[str, str]:
    """Return the annotations of a claim of ``pool`` that ``node_class`` will launch."""
    own, own_version = (
        (names.PROVISIONER_HASH, names.PROVISIONER_HASH_VERSION)
        if pool.legacy
        else (names.NODEPOOL_HASH, names.NODEPOOL_HASH_VERSION)
    )
    found = {own: hash_pool(pool), own_version: VERSION}
    if node_class is not None:
        found |= {names.NODECLASS_HASH: hash_class(node_class), names.NODECLASS_HASH_VERSION: VERSION}
    return found


def hash_pool(pool: NodePool) -> str:
    """Return the digest of the template of a pool. All its labels count, also those that are requirements."""
    return hash_fields(replace(pool, labels={**pool.labels, **pool.instance_labels}), OF_POOL)


def hash_class(node_class: NodeClass) -> str:
    """Return the digest of a class."""
    return hash_fields(node_class, (*OF_CLASS, *(name for name in OF_CLASS_IF_SET if getattr(node_class, name))))


def hash_fields(value: NodePool | NodeClass, of: tuple[str, ...]) -> str:
    """Return the digest of the fields ``of``. It does not depend on their order in a manifest."""
    text = json.dumps({name: _plain(getattr(value, name)) for name in of}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Return a value for JSON. Lists count as sets, so their order has no effect."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return sorted((_plain(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
