"""Whether nodes of an instance type can have what their node class sets: image, interfaces, timeouts, virtual machines.

EC2 refuses the launch of a type that lacks it, so such a type is not offered to the pools of the class. Source: EC2
user guide, "Multiple network interfaces", "Idle connection tracking timeout", "Prefix delegation" and "Nested
virtualization"; Amazon EKS user guide, "Learn about IPv6 addresses to clusters, Pods, and services" (Nitro only);
Amazon Linux 2023 user guide, "System requirements" (no first generation of Graviton).
"""

from collections import Counter

from joiner import names
from joiner.catalogue.instance_types import Catalogue, InstanceType
from joiner.pools import InvalidManifest, NodeClass, NodePool
from joiner.pools.node_class import EFA_ONLY

XEN = "xen"
HYPERVISOR = f"{names.INSTANCE_PREFIX}hypervisor"
FIRST_GRAVITON = "a1."
"""The beginning of the names of all types with Graviton 1."""


def find_incompatibility(known: InstanceType, node_class: NodeClass | None, strategy: str = "") -> str:
    """Return the field of the class or of its cluster that a node of this type cannot have, and why; empty if it can
    have all.

    ``strategy`` is that of its placement group.

    >>> find_incompatibility(InstanceType("m5.large"), NodeClass("vms", nested_virtualization="enabled"))
    'cpuOptions.nestedVirtualization: m5.large cannot run virtual machines'
    """
    if strategy == "cluster" and not known.features.cluster_groups:
        return f"placementGroupSelector: {known.name} cannot be in a cluster placement group"
    of_image = _image_problem(known, node_class)
    if of_image or node_class is None or not node_class.limits_types:
        return of_image
    if node_class.nested_virtualization == "enabled" and not known.features.nested_virtualization:
        return f"cpuOptions.nestedVirtualization: {known.name} cannot run virtual machines"
    if node_class.connection_tracking and known.labels.get(HYPERVISOR) == XEN:
        return f"connectionTracking: {known.name} is not based on Nitro"
    if node_class.in_ipv6_cluster:
        of_addresses = (
            f"ipFamily ipv6: {known.name} is not based on Nitro" if known.labels.get(HYPERVISOR) == XEN else ""
        )
    else:
        of_addresses = _prefix_problem(known, node_class.ip_prefix_count)
    return of_addresses or _interface_problem(known, node_class)


def find_class_conflict(
    pool: NodePool, node_class: NodeClass | None, catalogue: Catalogue, strategy: str = ""
) -> InvalidManifest | None:
    """Return the problem of a pool whose class sets something that no instance type of the pool can have, or None."""
    reasons = []
    for name in sorted(catalogue.types):
        known = catalogue.types[name]
        decided = {key for key in pool.requirements if key in known.labels}
        if decided & set(pool.requirements.unmet(known.labels)):
            continue
        reason = find_incompatibility(known, node_class, strategy)
        if not reason:
            return None
        reasons.append(reason)
    if not reasons or node_class is None:
        return None
    remedy = (
        f"no instance type that meets the pool's requirements can have what its class sets; for example, {reasons[0]}: "
        "change the class, or the requirements of the pool"
    )
    return InvalidManifest(pool.key, "spec.template.spec.nodeClassRef", node_class.key, remedy, "warning")


def _image_problem(known: InstanceType, node_class: NodeClass | None) -> str:
    """Return why the images of a class do not boot on this type: those of AL2023, by family or by alias."""
    if node_class is None or not known.name.startswith(FIRST_GRAVITON):
        return ""
    of_family = node_class.ami_family in (None, "AL2023") and not node_class.launch_template
    if of_family or any(term.alias.startswith("al2023@") for term in node_class.image_terms):
        return f"amiFamily: images of AL2023 do not boot on {known.name}, they need Graviton2 or newer"
    return ""


def _prefix_problem(known: InstanceType, count: int) -> str:
    if count and known.labels.get(HYPERVISOR) == XEN:
        return f"ipPrefixCount: {known.name} is not based on Nitro"
    if known.interfaces and count >= known.interfaces.addresses_each:
        most = known.interfaces.addresses_each - 1
        return f"ipPrefixCount: an interface of {known.name} takes at most {most} prefixes"
    return ""


def _interface_problem(known: InstanceType, node_class: NodeClass) -> str:
    declared = node_class.network_interfaces
    of_card = known.features.cards or ((known.interfaces.count,) if known.interfaces else ())
    for card, count in sorted(Counter(one.card for one in declared).items()):
        if of_card and card >= len(of_card):
            return f"networkInterfaces: {known.name} has no network card {card}"
        if of_card and count > of_card[card]:
            return f"networkInterfaces: the network card {card} of {known.name} has {of_card[card]} interfaces"
    efa = [one.card for one in declared if one.kind == EFA_ONLY]
    first = known.features.efa_card
    if len(efa) > known.features.efa or any(card < first for card in efa):
        return f"networkInterfaces: {known.name} has {known.features.efa} EFA interfaces from its card {first} on"
    return ""
