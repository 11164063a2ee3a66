"""Launching: NodeClaims become CreateFleet requests, and the answers become outcomes.

The functions in the order of a scale-up:

* ``node_class_queries.build_queries`` lists the queries to EC2, SSM and IAM for a node class.
* ``node_class_resolution.resolve_node_class`` reads the answers.
* ``launch_grouping.group_launches`` groups NodeClaims that share one request, with user data and launch templates.
* ``read_fleet_answer`` lists the launched instances, the capacity shortages and the failures.

The package is pure: the adapters call EC2. It may use ``pools`` and ``catalogue``. It has the names of launches and
their outcomes, which many functions read. What prepares a launch is in its modules, with the image families: the other
functions start without them.
"""

from joiner.launching.launch import Launch, LaunchTemplate
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

__all__ = [
    "CapacityShortage",
    "Launch",
    "LaunchFailure",
    "LaunchOffering",
    "LaunchOutcome",
    "LaunchTemplate",
    "PairedInstance",
    "pair_claims",
    "read_fleet_answer",
    "read_fleet_refusal",
]
