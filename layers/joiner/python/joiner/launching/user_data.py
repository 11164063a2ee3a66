"""User data: the configuration that a node reads at its first start to join the cluster.

The family of the image decides its form (``image_families``). Source: Karpenter, spec.userData.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from joiner.catalogue import InstanceType
from joiner.catalogue.allocatable import find_unreported_pods
from joiner.launching.image_families.image_family_registry import IMAGE_FAMILIES
from joiner.launching.image_families.mime_parts import read_user_parts
from joiner.launching.image_families.node_settings import ClusterDescription, NodeSettings, UserDataRefused
from joiner.launching.new_node_labels import select_node_labels
from joiner.launching.new_node_taints import list_node_taints
from joiner.pools import NodeClaim, NodeClass, NodePool
from joiner.pools.node_class import ImageFamily
from joiner.pools.node_kubelet import choose_kubelet

LIMIT_BYTES = 16_384  # limit of EC2, before base64
MAX_PODS: Final = re.compile(r"max-?pods[\w\"']*\s*[=:\s]", re.IGNORECASE)
"""A number of pods in the user data of a class, in every form that a family reads."""
COMMENT: Final = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)


def build_user_data(
    cluster: ClusterDescription,
    claim: NodeClaim,
    pool: NodePool,
    node_class: NodeClass,
    family: ImageFamily,
    *,
    max_pods: int | None = None,
) -> str:
    """Return the user data for the node of a claim, as text; raises UserDataRefused.

    All claims of one pool and class get the same text, so that few launch templates are needed. Only claims that
    request devices get a different one, and types whose kubelet must know ``max_pods``: without a number in the user
    data of the class, which the family would replace.
    """
    kubelet = choose_kubelet_config(pool, node_class)
    if max_pods is not None and not _names_max_pods(node_class.user_data or ""):
        kubelet = dict(sorted({**kubelet, "maxPods": max_pods}.items()))
    settings = NodeSettings(
        cluster,
        labels=select_node_labels(claim, pool),
        taints=list_node_taints(claim, pool),
        kubelet=kubelet,
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


def _names_max_pods(text: str) -> bool:
    r"""Return whether user data sets the number of pods; the families refuse what cannot be read.

    >>> _names_max_pods("[settings.kubernetes]\nmax-pods = 20"), _names_max_pods("# maxPods: see the wiki")
    (True, False)
    >>> _names_max_pods("set -x  # without --max-pods 20")
    False
    """
    try:
        texts = [part.decode() for part in read_user_parts(text)]
    except UserDataRefused:
        texts = [text]
    return any(MAX_PODS.search(COMMENT.sub("", one)) for one in texts)


def build_user_data_by_type(
    cluster: ClusterDescription,
    claim: NodeClaim,
    pool: NodePool,
    node_class: NodeClass,
    family: ImageFamily,
    *,
    types: Mapping[str, InstanceType],
) -> dict[str, str]:
    """Return the user data of the types, by name, whose kubelet must get its number of pods; raises UserDataRefused.

    Types with one number have the same text.
    """
    found: dict[str, str] = {}
    by_pods: dict[int, str] = {}
    for name, instance_type in types.items():
        pods = find_unreported_pods(instance_type, node_class, pool)
        if pods is not None:
            if pods not in by_pods:
                by_pods[pods] = build_user_data(cluster, claim, pool, node_class, family, max_pods=pods)
            found[name] = by_pods[pods]
    return found


def choose_kubelet_config(pool: NodePool, node_class: NodeClass) -> dict[str, Any]:
    """Return the kubelet settings of the nodes, sorted, so that equal settings are equal text."""
    return dict(sorted(choose_kubelet(node_class, pool).config.items()))
