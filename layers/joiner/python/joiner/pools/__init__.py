"""Pools: the objects that users declare, and NodeClaims, as values.

Users declare NodePool, EC2NodeClass, NodeOverlay and the legacy kinds. The modules of this package are values and rules
for them. ``pools.codecs`` reads manifests into the values and writes them back, with one module for each version of
Karpenter's API; no value imports a codec. A mistake in a manifest is also a value (``InvalidManifest``): it names the
object, the field, the value and the remedy. The package may use only ``cluster``.
"""

from joiner.pools.capacity_reservations import CapacityReservation
from joiner.pools.codecs.declared_objects import DeclaredObjects, read_manifests, read_node_class, read_node_pool
from joiner.pools.codecs.node_claim_manifests import read_node_claim, write_claim_status, write_node_claim
from joiner.pools.codecs.node_overlay_manifests import read_overlays
from joiner.pools.conditions import Condition, Conditions
from joiner.pools.invalid_manifests import InvalidManifest, InvalidManifests
from joiner.pools.kubelet_configuration import KubeletConfiguration
from joiner.pools.launch_template_version import LaunchTemplateVersion, complete_class
from joiner.pools.node_claim import LaunchedInstance, NodeClaim, NodeClaimTemplate, build_claim_name, build_node_claim
from joiner.pools.node_class import (
    BlockDevice,
    CapacityReservationTerm,
    ImageTerm,
    MetadataOptions,
    NodeClass,
    SecurityGroupTerm,
    SubnetTerm,
)
from joiner.pools.node_overlays import NodeOverlay, Overlays
from joiner.pools.node_pool import Disruption, DisruptionBudget, NodeClassRef, NodePool
from joiner.pools.pool_status import compute_pool_conditions
from joiner.pools.resolved_node_class import (
    Image,
    NodeClassProblem,
    ResolvedNodeClass,
    SecurityGroup,
    Subnet,
    complete_classes,
)

__all__ = [
    "BlockDevice",
    "CapacityReservation",
    "CapacityReservationTerm",
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
    "LaunchTemplateVersion",
    "LaunchedInstance",
    "MetadataOptions",
    "NodeClaim",
    "NodeClaimTemplate",
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
    "complete_class",
    "complete_classes",
    "compute_pool_conditions",
    "read_manifests",
    "read_node_claim",
    "read_node_class",
    "read_node_pool",
    "read_overlays",
    "write_claim_status",
    "write_node_claim",
]
