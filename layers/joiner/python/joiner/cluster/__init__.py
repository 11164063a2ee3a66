"""Cluster: the objects that kube-scheduler reads (pods, nodes, taints, requests, requirements) and its predicates.

Planning and the check before each binding use the same functions. Uses no other package.
"""

from joiner.cluster.affinity import (
    HostPort,
    NodePreference,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodPreference,
    TopologySpreadConstraint,
)
from joiner.cluster.invalid_field import InvalidField
from joiner.cluster.label_selectors import LabelSelector
from joiner.cluster.label_values import ABSENT, ANYTHING, MISSING, NOTHING, PRESENT, Value, ValueSet
from joiner.cluster.nodes import DaemonSet, Node, NodeCondition
from joiner.cluster.persistent_volumes import Volumes, VolumeUnusable
from joiner.cluster.pod_constraints import PodConstraints
from joiner.cluster.pod_disruption_budgets import PodDisruptionBudget
from joiner.cluster.pods import Pod
from joiner.cluster.requirements import Requirement, Requirements
from joiner.cluster.resources import Resources, sum_resources
from joiner.cluster.taints import Taint, Toleration, find_untolerated
from joiner.cluster.workload_order import mix_workloads

__all__ = [
    "ABSENT",
    "ANYTHING",
    "MISSING",
    "NOTHING",
    "PRESENT",
    "DaemonSet",
    "HostPort",
    "InvalidField",
    "LabelSelector",
    "Node",
    "NodeCondition",
    "NodePreference",
    "NodeSelectorTerm",
    "Pod",
    "PodAffinityTerm",
    "PodConstraints",
    "PodDisruptionBudget",
    "PodPreference",
    "Requirement",
    "Requirements",
    "Resources",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Value",
    "ValueSet",
    "VolumeUnusable",
    "Volumes",
    "find_untolerated",
    "mix_workloads",
    "sum_resources",
]
