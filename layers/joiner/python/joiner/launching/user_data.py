"""User data: the configuration that a node reads at its first start to join the cluster.

The family of the image decides its form (``image_families``). Source: Karpenter, spec.userData.
"""

from typing import Any

from joiner.launching.image_families.image_family_registry import IMAGE_FAMILIES
from joiner.launching.image_families.node_settings import ClusterDescription, NodeSettings, UserDataRefused
from joiner.launching.new_node_labels import select_node_labels
from joiner.launching.new_node_taints import list_node_taints
from joiner.pools import NodeClaim, NodeClass, NodePool
from joiner.pools.node_class import ImageFamily
from joiner.pools.node_kubelet import choose_kubelet

LIMIT_BYTES = 16_384  # limit of EC2, before base64


def build_user_data(
    cluster: ClusterDescription, claim: NodeClaim, pool: NodePool, node_class: NodeClass, family: ImageFamily
) -> str:
    """Return the user data for the node of a claim, as text; raises UserDataRefused.

    All claims of one pool and class get the same text, so that few launch templates are needed. Only claims that
    request devices get a different one.
    """
    settings = NodeSettings(
        cluster,
        labels=select_node_labels(claim, pool),
        taints=list_node_taints(claim, pool),
        kubelet=choose_kubelet_config(pool, node_class),
        raid0=node_class.instance_store_policy == "RAID0",
        own=node_class.user_data or "",
    )
    if family not in IMAGE_FAMILIES:
        remedy = f"use one of {', '.join(IMAGE_FAMILIES)}"
        raise UserDataRefused("FamilyNotSupported", f"amiFamily {family} is unknown: {remedy}")
    text = IMAGE_FAMILIES[family].write_user_data(settings)
    size = len(text.encode())
    if size > LIMIT_BYTES:
        raise UserDataRefused(
            "UserDataSizeLimitExceeded",
            f"user data has {size} bytes and EC2 takes {LIMIT_BYTES}: shorten spec.userData",
        )
    return text


def choose_kubelet_config(pool: NodePool, node_class: NodeClass) -> dict[str, Any]:
    """Return the kubelet settings of the nodes, sorted, so that equal settings are equal text."""
    return dict(sorted(choose_kubelet(node_class, pool).config.items()))
