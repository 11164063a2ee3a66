"""Whether nodes of an instance type can have what their node class sets: image, interfaces, timeouts, virtual machines.

EC2 refuses the launch of a type that lacks it, so such a type is not offered to the pools of the class. Source: EC2
user guide, "Multiple network interfaces", "Idle connection tracking timeout", "Prefix delegation" and "Nested
virtualization"; Amazon EKS user guide, "Learn about IPv6 addresses to clusters, Pods, and services" (Nitro only);
Amazon Linux 2023 user guide, "System requirements" (no first generation of Graviton); Amazon EKS user guide, "Deploy
Windows nodes on EKS clusters" (instance types that EKS does not support for Windows).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from joiner import names
from joiner.catalogue.capacity_settings import NodeCapacities, describe_settings, find_exhausting_settings
from joiner.catalogue.family_capacity import WINDOWS_BUILD, family_capacity, family_labels
from joiner.catalogue.instance_types import Catalogue, InstanceType
from joiner.catalogue.pod_volumes import LOCAL_NVME
from joiner.pools import Image, InvalidManifest, NodeClass, NodePool, ResolvedNodeClass
from joiner.pools.node_class import EFA_ONLY, field_path

XEN = "xen"
HYPERVISOR = f"{names.INSTANCE_PREFIX}hypervisor"
OF_GROUP: Final = (names.PLACEMENT_GROUP, names.PLACEMENT_PARTITION)
OF_CLASS: Final = (names.OS, WINDOWS_BUILD, *OF_GROUP)
"""Labels of nodes that their class decides, by its image family and its placement group."""
FIRST_GRAVITON = "a1."
"""The beginning of the names of all types with Graviton 1."""
WITHOUT_WINDOWS: Final = frozenset({"c3", "c4", "d2", "i2", "m4", "m6a", "r3"})
"""Instance families that EKS does not support for Windows, all but m4.16xlarge."""
SHOWN: Final = 2
"""Fields with an example in an explanation."""
EXCLUDES: Final = "excludes every instance type that"
ALLOW_OTHERS: Final = "allow other instance types"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why no node of an instance type can be launched from a class: the path of the field, and what the type lacks.

    The field is empty for what the cluster needs, and not the class. ``instead`` is what to change, if not the field.
    """

    field: str
    cause: str
    instead: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.cause}" if self.field else self.cause


def find_exclusion(
    known: InstanceType, node_class: NodeClass | None, resolved: ResolvedNodeClass | None = None
) -> Exclusion | None:
    """Return why the type cannot be launched from the class, or None if it can.

    ``node_class`` is None for a class that is not declared, as in a plan from files: what was assumed about it is in
    ``resolved``. ``resolved`` has the images of the class and its placement group.

    >>> print(find_exclusion(InstanceType("m5.large"), NodeClass("vms", nested_virtualization="enabled")))
    spec.cpuOptions.nestedVirtualization: m5.large cannot run virtual machines
    """
    if resolved is not None:
        node_class = node_class or NodeClass(resolved.name, resolved.kind, ami_family=resolved.ami_family)
        if cause := _explain_missing_image(known, resolved):
            named = node_class.image_terms or node_class.launch_template or node_class.kind == "EC2NodeClass"
            return Exclusion(field_path(node_class, "amiSelector" if named else "amiFamily"), cause)
        group = resolved.placement_group
        if group and group.strategy == "cluster" and not known.features.cluster_groups:
            cause = f"{known.name} cannot be in a cluster placement group, which {group.name} is"
            return Exclusion("spec.placementGroupSelector", cause)
    if node_class is None:
        return None
    if family_capacity(node_class).windows_build and _lacks_windows(known.name):
        return Exclusion(_field_of_family(node_class), f"Amazon EKS does not support Windows on {known.name}")
    if cause := _explain_old_graviton(known, node_class):
        return Exclusion(_field_of_family(node_class), cause)
    return _find_lacking_feature(known, node_class) if node_class.limits_types else None


def _find_exhaustion(known: InstanceType, pool: NodePool, capacities: NodeCapacities) -> Exclusion | None:
    """Return why no node of the type is launched if the reserves of its kubelet leave nothing to pods; else None. The
    field is empty if it is not one of the class."""
    if not (lacking := capacities.exhausted(known)):
        return None
    settings = find_exhausting_settings([known], capacities)
    cause = f"the reserves leave no {' and no '.join(lacking)} of {known.name} to pods"
    if settings and all(each.owner != pool.key for each in settings):
        return Exclusion(" and ".join(each.field for each in settings), cause)
    return Exclusion("", f"{cause}{describe_settings(settings)}")


def _lacks_windows(instance_type: str) -> bool:
    return instance_type.partition(".")[0] in WITHOUT_WINDOWS and instance_type != "m4.16xlarge"


def find_open_windows_pool(pool: NodePool, node_class: NodeClass | None) -> InvalidManifest | None:
    """Return the note on a pool whose Windows nodes take pods of Linux, too, because it has no taint; or None."""
    if node_class is None or not family_capacity(node_class).windows_build:
        return None
    if any(taint.effect in ("NoSchedule", "NoExecute") for taint in pool.taints):
        return None
    remedy = (
        "its nodes run Windows, and pods that require no operating system may get them: add a taint, such as "
        "os=windows:NoSchedule, which the pods for Windows tolerate"
    )
    return InvalidManifest(pool.key, f"{pool.node_path}.taints", "", remedy, "info")


def list_exclusions(
    pool: NodePool, node_class: NodeClass | None, catalogue: Catalogue, resolved: ResolvedNodeClass | None = None
) -> list[Exclusion]:
    """Return why the class excludes each type that meets the requirements of the pool on instance types, by name; empty
    if it excludes only some of them, or none meets them.

    A requirement on a label that the class decides, such as the operating system, is one that the class does not meet.
    """
    found, other_labels = [], _find_other_labels(pool, node_class, resolved)
    capacities = NodeCapacities(node_class, pool)
    for name in sorted(catalogue.types):
        known = catalogue.types[name]
        if any(key in known.labels and key not in OF_CLASS for key in pool.requirements.unmet(known.labels)):
            continue
        exclusion = (
            other_labels or find_exclusion(known, node_class, resolved) or _find_exhaustion(known, pool, capacities)
        )
        if exclusion is None:
            return []
        found.append(exclusion)
    return found


def _find_other_labels(
    pool: NodePool, node_class: NodeClass | None, resolved: ResolvedNodeClass | None
) -> Exclusion | None:
    """Return the requirement of a pool on a label of its nodes that their class decides, if they do not meet it; else
    None. A placement group that the class selects and that was not looked up may have any labels."""
    own = node_class or NodeClass(pool.class_ref.name, pool.class_ref.kind)
    group = resolved.placement_labels(pool.requirements) if resolved else {}
    labels = {names.OS: "linux", **family_labels(own), **group}
    unknown = OF_GROUP if own.placement_group and not group else ()
    for key in pool.requirements.unmet(labels):
        if key in OF_CLASS and key not in unknown:
            has = f"{key} {labels[key]}" if key in labels else f"no label {key}"
            cause = f"its nodes have {has}, and the pool requires {pool.describe_requirement(key)}"
            field = "spec.placementGroupSelector" if key in OF_GROUP else _field_of_family(own)
            return Exclusion(field, cause, "the requirement of the pool")
    return None


def _field_of_family(node_class: NodeClass) -> str:
    """Return the path of the field that decides which family the images are of: an alias, or else amiFamily."""
    by_alias = any(term.alias for term in node_class.image_terms)
    return field_path(node_class, "amiSelector" if by_alias else "amiFamily")


def explain_exclusions(exclusions: Sequence[Exclusion], subject: str, allowed_by: str = "the pool allows") -> str:
    """Return what all these types lack, with an example for each of the two fields that exclude most, and the remedy.

    >>> lacking = Exclusion("spec.ipPrefixCount", "m4.large is not based on Nitro")
    >>> explain_exclusions([lacking], "its class EC2NodeClass/a")
    'its class EC2NodeClass/a excludes every instance type that the pool allows; spec.ipPrefixCount: m4.large is not \
based on Nitro: change this field of the class, or allow other instance types'
    """
    counts = Counter(each.field for each in exclusions)
    fields = [field for field, _ in counts.most_common(SHOWN)]
    examples = "; ".join(str(next(each for each in exclusions if each.field == field)) for field in fields)
    fields_of_class = "this field" if len(fields) == 1 else "these fields"
    others = next((each.instead for each in exclusions if each.instead), ALLOW_OTHERS)
    remedy = f"change {fields_of_class} of the class, or {others}" if all(fields) else others
    return f"{subject} {EXCLUDES} {allowed_by}; {examples}: {remedy}"


def find_class_conflict(pool: NodePool, exclusions: Sequence[Exclusion]) -> InvalidManifest | None:
    """Return the problem of a pool whose class excludes all its instance types (`list_exclusions`), or None."""
    if not exclusions:
        return None
    remedy = explain_exclusions(exclusions, "this class")
    return InvalidManifest(pool.key, pool.class_field, pool.class_value, remedy, "warning")


def close_excluded_pools(problems: Iterable[InvalidManifest]) -> tuple[InvalidManifest, ...]:
    """Return the problems; those of pools whose class excludes every instance type are errors.

    Such a pool launches nothing, so it is not ready. In an offline plan the same problem is a warning, because the
    catalogue of the cluster may have more types.

    >>> conflict = InvalidManifest("NodePool/a", "spec.providerRef", "", f"this class {EXCLUDES} it allows", "warning")
    >>> [each.severity for each in close_excluded_pools([conflict])]
    ['error']
    """
    return tuple(
        replace(each, severity="error") if each.field and EXCLUDES in each.remedy else each for each in problems
    )


def find_unused_instance_store(
    pool: NodePool, node_class: NodeClass | None, types: Iterable[Mapping[str, str]]
) -> InvalidManifest | None:
    """Return the note on a pool whose class sets `instanceStorePolicy`, if none of its instance types has a store.

    ``types`` are the labels of the types that the pool can launch; none of them is no reason for the note.
    """
    if node_class is None or not node_class.instance_store_policy:
        return None
    listed = list(types)
    if not listed or any(LOCAL_NVME in labels for labels in listed):
        return None
    if not family_capacity(node_class).mounts_instance_store:
        return None
    field = field_path(node_class, "instanceStorePolicy")
    remedy = (
        f"{field} of it changes nothing here, because no instance type of the pool has an instance store: require "
        f"{LOCAL_NVME}, or remove the field"
    )
    return InvalidManifest(pool.key, pool.class_field, pool.class_value, remedy, "info")


def _explain_missing_image(known: InstanceType, resolved: ResolvedNodeClass) -> str:
    """Return why no image of the class is for the type; empty if one is. A class without images was not resolved by EC2
    and is accepted: its plan is offline."""
    if not resolved.images or resolved.image_for(known.labels) is not None:
        return ""
    wanted = known.labels.get(names.ARCH)
    there = sorted({arch for each in resolved.images for arch in _architectures(each)})
    if wanted and there and wanted not in there:
        return f"its images are for {' and '.join(there)}, and {known.name} is {wanted}"
    return f"it has no image for {known.name}"


def _architectures(image: Image) -> Iterable[str]:
    allowed = image.requirements.on(names.ARCH)
    return allowed if allowed.finite else ()


def _explain_old_graviton(known: InstanceType, node_class: NodeClass) -> str:
    """Return why the images of a class do not boot on this type: those of AL2023, by family or by alias."""
    if not known.name.startswith(FIRST_GRAVITON):
        return ""
    of_family = node_class.ami_family in (None, "AL2023") and not node_class.launch_template
    if of_family or any(term.alias.startswith("al2023@") for term in node_class.image_terms):
        return f"images of AL2023 do not boot on {known.name}, they need Graviton2 or newer"
    return ""


def _find_lacking_feature(known: InstanceType, node_class: NodeClass) -> Exclusion | None:
    xen = f"{known.name} is not based on Nitro" if known.labels.get(HYPERVISOR) == XEN else ""
    if node_class.nested_virtualization == "enabled" and not known.features.nested_virtualization:
        return Exclusion("spec.cpuOptions.nestedVirtualization", f"{known.name} cannot run virtual machines")
    if node_class.connection_tracking and xen:
        return Exclusion("spec.connectionTracking", xen)
    if node_class.in_ipv6_cluster:
        if xen:
            return Exclusion("", f"{xen}, which the ipFamily ipv6 of the cluster needs")
    elif node_class.ip_prefix_count and (cause := xen or _explain_prefixes(known, node_class.ip_prefix_count)):
        return Exclusion("spec.ipPrefixCount", cause)
    cause = _explain_interfaces(known, node_class)
    return Exclusion("spec.networkInterfaces", cause) if cause else None


def _explain_prefixes(known: InstanceType, count: int) -> str:
    if not known.interfaces or count < known.interfaces.addresses_each:
        return ""
    return f"an interface of {known.name} takes at most {known.interfaces.addresses_each - 1} prefixes"


def _explain_interfaces(known: InstanceType, node_class: NodeClass) -> str:
    declared = node_class.network_interfaces
    of_card = known.features.cards or ((known.interfaces.count,) if known.interfaces else ())
    for card, count in sorted(Counter(one.card for one in declared).items()):
        if of_card and card >= len(of_card):
            return f"{known.name} has no network card {card}"
        if of_card and count > of_card[card]:
            return f"the network card {card} of {known.name} has {of_card[card]} interfaces"
    efa = [one.card for one in declared if one.kind == EFA_ONLY]
    first = known.features.efa_card
    if len(efa) > known.features.efa or any(card < first for card in efa):
        return f"{known.name} has {known.features.efa} EFA interfaces from its card {first} on"
    return ""
