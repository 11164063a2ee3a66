"""The kubelet settings of a pool's nodes: those of the pool or of its class, and what an IPv6 cluster needs besides.

In an IPv6 cluster the addresses of network interfaces do not limit the pods of a node, because the VPC CNI gives it a
prefix with enough addresses for all. Images differ in the number that they then choose: nodeadm takes the 110 of the
kubelet since the middle of 2026 and counted the IPv4 addresses before, as Bottlerocket and AL2 do. So the number is
set, and plans know it for every image. nodeadm also reserves memory for the number that it would choose, and that
memory is set for the same reason. Sources: Amazon EKS user guide, "Learn about IPv6 addresses to clusters, Pods, and
services"; amazon-eks-ami, nodeadm (eni_max_pods.go).
"""

from collections.abc import Mapping
from typing import Any, Final

from joiner.pools.kubelet_configuration import KubeletConfiguration
from joiner.pools.node_class import NodeClass
from joiner.pools.node_pool import NodePool

PODS_OF_KUBELET: Final = 110  # the default of the kubelet
NOTHING_SET: Final = KubeletConfiguration()


def choose_kubelet(node_class: NodeClass | None, pool: NodePool | None) -> KubeletConfiguration:
    """Return the settings of the pool (a Provisioner's kubeletConfiguration), or else those of the class.

    >>> choose_kubelet(NodeClass("default", ip_family="ipv6"), None).config
    {'maxPods': 110, 'kubeReserved': {'memory': '1465Mi'}}
    """
    declared = (pool and pool.kubelet) or (node_class and node_class.kubelet) or NOTHING_SET
    if node_class is None or not node_class.in_ipv6_cluster:
        return declared
    pods = PODS_OF_KUBELET if declared.max_pods is None else declared.max_pods
    return KubeletConfiguration({**declared.config, "maxPods": pods, **_reserved(node_class, declared, pods)})


def _reserved(node_class: NodeClass, declared: KubeletConfiguration, pods: int) -> Mapping[str, Any]:
    """Return `kubeReserved` with the memory for these pods, for nodes of nodeadm without a setting of their own.

    Other bootstrap programs reserve by rules that do not depend on the release of the image.
    """
    own = declared.config.get("kubeReserved") or {}
    if node_class.ami_family not in (None, "AL2023") or "memory" in own:
        return {}
    return {"kubeReserved": {**own, "memory": f"{255 + 11 * pods}Mi"}}
