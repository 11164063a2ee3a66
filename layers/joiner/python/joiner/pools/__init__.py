"""Pools: what users declare (NodePool, EC2NodeClass and their legacy kinds) and the claims that come of it, as values.

Each value has two codecs, one a generation of Karpenter's API; mistakes are values too (``InvalidManifest``) that name object,
field, value and remedy. May use ``cluster`` and nothing else.
"""

from joiner.pools.codecs.declared_objects import DeclaredObjects, read_manifests
from joiner.pools.conditions import Condition, Conditions
from joiner.pools.invalid_manifests import InvalidManifest, InvalidManifests
from joiner.pools.kubelet_configuration import KubeletConfiguration
from joiner.pools.node_claim import NodeClaim, build_claim_name, build_node_claim
from joiner.pools.node_class import BlockDevice, ImageTerm, MetadataOptions, NodeClass, SecurityGroupTerm, SubnetTerm
from joiner.pools.node_overlays import NodeOverlay, Overlays, read_overlays
from joiner.pools.node_pool import Disruption, DisruptionBudget, NodeClassRef, NodePool
from joiner.pools.pool_status import build_pool_status, compute_pool_conditions
from joiner.pools.resolved_node_class import Image, NodeClassProblem, ResolvedNodeClass, SecurityGroup, Subnet

__all__ = [
    "BlockDevice",
    "Condition",
    "Conditions",
    "DeclaredObjects",
    "Disruption",
    "DisruptionBudget",
    "Image",
    "ImageTerm",
    "InvalidManifest",
    "InvalidManifests",
    "KubeletConfiguration",
    "MetadataOptions",
    "NodeClaim",
    "NodeClass",
    "NodeClassProblem",
    "NodeClassRef",
    "NodeOverlay",
    "NodePool",
    "Overlays",
    "ResolvedNodeClass",
    "SecurityGroup",
    "SecurityGroupTerm",
    "Subnet",
    "SubnetTerm",
    "build_claim_name",
    "build_node_claim",
    "build_pool_status",
    "compute_pool_conditions",
    "read_manifests",
    "read_overlays",
]
