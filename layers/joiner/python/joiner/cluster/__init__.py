"""Cluster: kube-scheduler's words as values (pods, nodes, taints, requests, requirements) and its predicates.

What planning assumes and what is checked again before each binding are the same functions. Uses no other room.
"""

from joiner.cluster.affinity import HostPort, NodeTerm, PodPreference, PodTerm, Preference, Spread
from joiner.cluster.constraints import Constraints
from joiner.cluster.invalid import InvalidField
from joiner.cluster.nodes import DaemonSet, Node
from joiner.cluster.pods import Pod
from joiner.cluster.requirements import Requirement, Requirements
from joiner.cluster.resources import Resources, total
from joiner.cluster.selectors import LabelSelector
from joiner.cluster.taints import Taint, Toleration, untolerated
from joiner.cluster.values import ABSENT, ANYTHING, MISSING, NOTHING, PRESENT, Value, ValueSet
from joiner.cluster.volumes import Volumes, VolumeUnusable

__all__ = [
    "ABSENT",
    "ANYTHING",
    "MISSING",
    "NOTHING",
    "PRESENT",
    "Constraints",
    "DaemonSet",
    "HostPort",
    "InvalidField",
    "LabelSelector",
    "Node",
    "NodeTerm",
    "Pod",
    "PodPreference",
    "PodTerm",
    "Preference",
    "Requirement",
    "Requirements",
    "Resources",
    "Spread",
    "Taint",
    "Toleration",
    "Value",
    "ValueSet",
    "VolumeUnusable",
    "Volumes",
    "total",
    "untolerated",
]
