"""Launching: NodeClaims become CreateFleet requests, and the answers become outcomes.

The functions in the order of a scale-up:

* ``build_queries`` lists the queries to EC2, SSM and IAM for a node class.
* ``resolve_node_class`` reads the answers.
* ``group_launches`` groups NodeClaims that share one request, with user data and launch templates.
* ``read_fleet_answer`` lists the launched instances, the capacity shortages and the failures.

The package is pure: the adapters call EC2. It may use ``pools`` and ``catalogue``.
"""

from joiner.launching.block_devices import EbsDefaults
from joiner.launching.class_manifest_problems import find_manifest_problems
from joiner.launching.image_families.node_settings import ClusterDescription
from joiner.launching.launch import Launch, LaunchTemplate
from joiner.launching.launch_grouping import ClaimToLaunch, RefusedClaim, group_launches
from joiner.launching.launch_offering import LaunchOffering
from joiner.launching.launch_outcome import (
    CapacityShortage,
    LaunchFailure,
    LaunchOutcome,
    PairedInstance,
    pair_claims,
    read_fleet_answer,
    read_fleet_refusal,
)
from joiner.launching.node_class_answers import NodeClassAnswers
from joiner.launching.node_class_policy import AllowedResources, NodeClassPolicy
from joiner.launching.node_class_queries import (
    ImageQuery,
    NodeClassQueries,
    build_queries,
    query_parameter_images,
)
from joiner.launching.node_class_resolution import refuse_after_lookup, resolve_node_class

__all__ = [
    "AllowedResources",
    "CapacityShortage",
    "ClaimToLaunch",
    "ClusterDescription",
    "EbsDefaults",
    "ImageQuery",
    "Launch",
    "LaunchFailure",
    "LaunchOffering",
    "LaunchOutcome",
    "LaunchTemplate",
    "NodeClassAnswers",
    "NodeClassPolicy",
    "NodeClassQueries",
    "PairedInstance",
    "RefusedClaim",
    "build_queries",
    "find_manifest_problems",
    "group_launches",
    "pair_claims",
    "query_parameter_images",
    "read_fleet_answer",
    "read_fleet_refusal",
    "refuse_after_lookup",
    "resolve_node_class",
]
