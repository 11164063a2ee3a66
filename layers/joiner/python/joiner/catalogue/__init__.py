"""Catalogue: instance types, offerings and prices, and what a node of a type and class can allocate."""

from joiner.catalogue.allocatable import allocatable, capacity
from joiner.catalogue.ec2 import NetworkFacts, instance_type_from_ec2, network_facts, usable
from joiner.catalogue.types import Catalogue, InstanceType, Interfaces, Offering
from joiner.catalogue.unknown_values import near_types, never_met, unknown_values

__all__ = [
    "Catalogue",
    "InstanceType",
    "Interfaces",
    "NetworkFacts",
    "Offering",
    "allocatable",
    "capacity",
    "instance_type_from_ec2",
    "near_types",
    "network_facts",
    "never_met",
    "unknown_values",
    "usable",
]
