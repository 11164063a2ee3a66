"""Pools: what users declare (NodePool, EC2NodeClass and their legacy kinds) and the claims that come of it, as values.

Each value has two codecs, one a generation of Karpenter's API; mistakes are values too (``InvalidManifest``) that name object,
field, value and remedy. May use ``cluster`` and nothing else.
"""

from joiner.pools.conditions import Condition, Conditions
from joiner.pools.declared import Declared, read
from joiner.pools.kubelet import Kubelet
from joiner.pools.nodeclaim import NodeClaim, claim_for, claim_name
from joiner.pools.nodeclass import BlockDevice, ImageTerm, MetadataOptions, NodeClass, SecurityGroupTerm, SubnetTerm
from joiner.pools.nodepool import Budget, ClassRef, Disruption, NodePool
from joiner.pools.overlays import NodeOverlay, Overlays, read_overlays
from joiner.pools.problems import InvalidManifest, InvalidManifests
from joiner.pools.resolved import Image, Problem, ResolvedNodeClass, SecurityGroup, Subnet
from joiner.pools.status import pool_conditions, pool_status

__all__ = [
    "BlockDevice",
    "Budget",
    "ClassRef",
    "Condition",
    "Conditions",
    "Declared",
    "Disruption",
    "Image",
    "ImageTerm",
    "InvalidManifest",
    "InvalidManifests",
    "Kubelet",
    "MetadataOptions",
    "NodeClaim",
    "NodeClass",
    "NodeOverlay",
    "NodePool",
    "Overlays",
    "Problem",
    "ResolvedNodeClass",
    "SecurityGroup",
    "SecurityGroupTerm",
    "Subnet",
    "SubnetTerm",
    "claim_for",
    "claim_name",
    "pool_conditions",
    "pool_status",
    "read",
    "read_overlays",
]
