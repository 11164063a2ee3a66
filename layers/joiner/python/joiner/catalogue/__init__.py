"""Catalogue: instance types, offerings and prices, and the allocatable of a node by type and class."""

from joiner.catalogue.allocatable import ADDED_DEVICES, CapacityEstimate, compute_allocatable, compute_capacity
from joiner.catalogue.ec2_instance_types import (
    NetworkFacts,
    instance_type_from_ec2,
    load_network_facts,
    supports_nodes,
)
from joiner.catalogue.family_capacity import family_labels
from joiner.catalogue.idle_exclusions import find_idle_exclusions
from joiner.catalogue.instance_types import Catalogue, InstanceType, Interfaces, Offering
from joiner.catalogue.published_prices import PublishedPrices, load_published_prices
from joiner.catalogue.unknown_values import (
    close_unsatisfiable_pools,
    explain_unknown_values,
    find_unknown_limits,
    find_unknown_values,
    find_unsatisfiable_requirements,
    suggest_instance_types,
    suggest_resources,
)

__all__ = [
    "ADDED_DEVICES",
    "CapacityEstimate",
    "Catalogue",
    "InstanceType",
    "Interfaces",
    "NetworkFacts",
    "Offering",
    "PublishedPrices",
    "close_unsatisfiable_pools",
    "compute_allocatable",
    "compute_capacity",
    "explain_unknown_values",
    "family_labels",
    "find_idle_exclusions",
    "find_unknown_limits",
    "find_unknown_values",
    "find_unsatisfiable_requirements",
    "instance_type_from_ec2",
    "load_network_facts",
    "load_published_prices",
    "suggest_instance_types",
    "suggest_resources",
    "supports_nodes",
]
