"""Resolves node classes without AWS: their manifests by the code of the cluster, and assumptions for the rest.

Subnets, images, security groups, instance profiles and capacity reservations exist only in an account. A class of a
dump has those of its status. Other classes are assumed to have a subnet in every zone and the images of their family.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from joiner import names
from joiner.catalogue.family_capacity import WINDOWS_BUILD
from joiner.cluster import InvalidField, Requirements
from joiner.launching.additional_cost_computation import DEFAULT_OVERHEAD_PRICE, compute_node_costs
from joiner.launching.class_manifest_problems import find_assumed_role, find_manifest_problems, find_unpriced_licence
from joiner.launching.named_resources import list_unchecked_resources
from joiner.launching.node_class_policy import NodeClassPolicy
from joiner.launching.node_images import choose_family, explain_assumed_images, list_image_parameters
from joiner.launching.user_launch_templates import refuse_template
from joiner.planning import Snapshot
from joiner.pools import Image, InvalidManifest, NodeClass, NodeClassProblem, ResolvedNodeClass, Subnet
from joiner.pools.capacity_reservations import CapacityReservation
from joiner.pools.codecs.manifest_fields import format_value
from joiner.pools.node_class import field_path
from joiner.pools.node_pool import NodeClassRef
from joiner_cli.selected_reservations import SelectedReservations, list_unselected, select_reservations
from joiner_cli.unknown_reservations import describe_reservations, explain_unselected, find_unusable_terms

Manifest = Mapping[str, Any]

IMAGES_NOT_READ: Final = (
    "images chosen by id, name, tags or parameter are not looked up: this plan assumes one for each architecture"
)

OF_WINDOWS: Final = frozenset({names.OS, WINDOWS_BUILD, names.NODEPOOL})
"""Labels by which an overlay can be for Windows nodes."""

TEMPLATE_NOT_READ: Final = (
    "the launch template is not read: this plan assumes nodes as of a class of the family AL2023 without fields of its "
    "own, and an image for each architecture"
)


def assume_resolved_classes(
    snapshot: Snapshot,
    manifests: Iterable[Manifest],
    zones: Iterable[str],
    *,
    unready: Mapping[str, str] | None = None,
    ceilings: NodeClassPolicy | None = None,
    overhead_price: float = DEFAULT_OVERHEAD_PRICE,
    reserved: Sequence[CapacityReservation] = (),
) -> dict[str, ResolvedNodeClass]:
    """Return the node classes of all pools, by key, with the problems that are known without AWS.

    An absent class has the defaults. A class that is invalid or being deleted is left out, so that its pools have no
    nodes. ``unready`` are classes whose status says that they are not ready; ``ceilings`` are the limits of the
    settings, if they are known. ``overhead_price`` is what the running of a node costs in $/h. ``reserved`` are the
    capacity reservations of the catalogue.
    """
    declared = {one.key: one for one in snapshot.classes}
    invalid = {one.object for one in snapshot.problems if one.severity == "error"}
    status = {f"{one.get('kind')}/{one['metadata']['name']}": one.get("status") or {} for one in manifests}
    everywhere, found, selected = sorted(zones), dict[str, ResolvedNodeClass](), {}
    for ref in {pool.class_ref for pool in snapshot.pools}:
        own = declared.get(ref.key)
        if (own is None and ref.key in invalid) or (own is not None and own.deleting):
            continue
        assumed = _assume(ref, own, status.get(ref.key, {}), everywhere, overhead_price)
        problems = [*find_manifest_problems(own, ceilings), *_assumptions(own, ceilings, snapshot)] if own else []
        if own and ceilings is None and not status.get(ref.key):  # a cluster has checked a class with a status
            problems.extend(_unchecked_limits(own))
        selected[ref] = select_reservations(own, status.get(ref.key, {}).get("capacityReservations"), reserved)
        unusable = [*find_unusable_terms(own, (one for one in snapshot.pools if one.class_ref == ref))]
        problems.extend(unusable or describe_reservations(selected[ref], reserved, own))
        assumed = replace(assumed, reservations=(*selected[ref].counted, *selected[ref].uncounted))
        if own and not assumed.images and not any(problem.severity == "error" for problem in problems):
            problems.append(NodeClassProblem("AMIsReady", "ImagesAssumed", IMAGES_NOT_READ, "info", _images_field(own)))
        if own and not status.get(ref.key, {}).get("amis") and (guess := explain_assumed_images(own)):
            problems.append(NodeClassProblem("AMIsReady", "ImagesAssumed", guess, "info", _images_field(own)))
        if reason := (unready or {}).get(ref.key):
            problems.append(NodeClassProblem("ValidationSucceeded", "NotReady", reason))
        found[ref.key] = assumed.with_problems(problems)
    return _with_unselected(found, snapshot, selected, reserved)


def check_unnamed_classes(
    snapshot: Snapshot, classes: Mapping[str, ResolvedNodeClass], ceilings: NodeClassPolicy | None
) -> dict[str, ResolvedNodeClass]:
    """Return the valid classes that no pool names, by key, with the problems that a cluster would report on them too.

    ``classes`` are those of the pools. What a plan assumes about a class is left out: the plan does not use these.
    """
    found = {}
    for own in snapshot.classes:
        if own.key in classes or own.deleting:
            continue
        problems = [one for one in find_manifest_problems(own, ceilings) if one.severity != "info"]
        if own.launch_template and ceilings:
            problems.extend(refuse_template(own, ceilings))
        if ceilings is None and not own.conditions.items:
            problems.extend(_unchecked_limits(own))
        found[own.key] = ResolvedNodeClass(own.name, own.kind).with_problems(problems)
    return found


def _with_unselected(
    found: dict[str, ResolvedNodeClass],
    snapshot: Snapshot,
    selected: Mapping[NodeClassRef, SelectedReservations],
    reserved: Sequence[CapacityReservation],
) -> dict[str, ResolvedNodeClass]:
    """Return the classes, with a warning on those of pools for reserved capacity if no class selects some of it."""
    if unselected := [*list_unselected(reserved, selected.values())]:
        declared = {one.key: one for one in snapshot.classes}
        allowing = {
            one.class_ref for one in snapshot.pools if names.RESERVED in one.requirements.on(names.CAPACITY_TYPE)
        }
        for ref in allowing & selected.keys():
            problem = explain_unselected(declared.get(ref.key), unselected, listed=selected[ref].known)
            found[ref.key] = found[ref.key].with_problems([problem])
    return found


@dataclass(frozen=True, slots=True)
class ClassProblem(InvalidManifest):
    """The problem of a class, with the same ``text`` as in a condition of the class."""

    text: str = ""

    @property
    def message(self) -> str:
        """Return the text."""
        return self.text


def class_problems(
    classes: Iterable[ResolvedNodeClass], manifests: Mapping[str, Manifest]
) -> Iterator[InvalidManifest]:
    """Yield the problems of the classes as problems of their objects; an inline class is a part of its Provisioner.

    ``manifests`` are the objects by kind and name. A class that the cluster stores and cannot use is no invalid input,
    so that its errors are warnings.
    """
    for one in sorted(classes, key=lambda one: one.key):
        kind = "Provisioner" if one.kind == "Inline" else one.kind
        for problem in one.problems:
            if problem.reason != "NotReady":  # the status is reported when it is read
                severity = "warning" if problem.severity == "error" else problem.severity
                no_nodes = "; the plan has no nodes of it" if problem.severity == "error" else ""
                key, text = f"{kind}/{one.name}", f"{problem.message}{no_nodes}"
                value = _value_at(problem.field, manifests.get(key, {}))
                remedy = text.removeprefix(f"{problem.field}: ")
                yield ClassProblem(key, problem.field, value, remedy, severity, text)


def _value_at(path: str, manifest: Manifest) -> str:
    """Return the value of a field as problems show it; empty if the manifest has no such field.

    >>> _value_at("spec.blockDeviceMappings[0].ebs", {"spec": {"blockDeviceMappings": [{"ebs": {"iops": 9}}]}})
    '{iops: 9}'
    """
    value: Any = manifest
    for name in re.findall(r"[^.\[\]]+", path.partition(" ")[0]):
        if isinstance(value, list):
            value = value[int(name)] if name.isdecimal() and int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, Mapping) else None
    return "" if value is None or not path else format_value(value)


def _assumptions(own: NodeClass, ceilings: NodeClassPolicy | None, snapshot: Snapshot) -> Iterator[NodeClassProblem]:
    if own.launch_template:
        yield from refuse_template(own, ceilings) if ceilings else ()
        where = field_path(own, "launchTemplate")
        yield NodeClassProblem("ValidationSucceeded", "TemplateAssumed", TEMPLATE_NOT_READ, "info", where)
        return
    yield from find_assumed_role(own, ceilings)
    if not _overlay_prices_windows(own, snapshot):
        yield from find_unpriced_licence(own)


def _overlay_prices_windows(own: NodeClass, snapshot: Snapshot) -> bool:
    """Return whether an overlay sets the price of Windows nodes of the class: it names their pool, system or build."""
    overlays = [one for one in snapshot.overlays.ordered if one.prices and not OF_WINDOWS.isdisjoint(one.requirements)]
    windows = [
        one.requirements & Requirements.from_labels({names.OS: "windows", names.NODEPOOL: one.name})
        for one in snapshot.pools
        if one.class_ref.key == own.key
    ]
    return any(not (of_pool & one.requirements).contradictions() for of_pool in windows for one in overlays)


def _images_field(own: NodeClass) -> str:
    return field_path(own, "amiSelector" if own.image_terms else "amiFamily")


def _unchecked_limits(own: NodeClass) -> Iterator[NodeClassProblem]:
    """Yield that what the class names and only the settings allow is not checked without them."""
    named: dict[str, dict[str, None]] = {}
    for each in list_unchecked_resources(own, None):
        named.setdefault(each.setting, {})[each.text] = None
    unchecked = [f"{', '.join(texts)} ({setting})" for setting, texts in named.items()]
    if unchecked:
        message = (
            f"whether the settings of the cluster allow {' and '.join(unchecked)} is not checked: "
            "give them with --settings clusters/NAME.yaml"
        )
        yield NodeClassProblem("ValidationSucceeded", "LimitsNotChecked", message, "info")


def _assume(
    ref: NodeClassRef, own: NodeClass | None, status: Manifest, zones: Iterable[str], overhead_price: float
) -> ResolvedNodeClass:
    node_class = own or NodeClass(ref.name, ref.kind)
    ids = {one["zone"]: one.get("zoneID") or "" for one in status.get("subnets") or () if one.get("zone")}
    there = sorted(ids) or sorted(zones)
    public = bool(node_class.associate_public_ip_address)
    region = next(map(names.region_of, there), "")
    return ResolvedNodeClass(
        name=ref.name,
        kind=ref.kind,
        ami_family=choose_family(node_class),
        subnets=tuple(Subnet(f"subnet-{one}", one, zone_id=ids.get(one, ""), public=public) for one in there),
        images=tuple(_status_images(status)) or tuple(_family_images(node_class)),
        costs=compute_node_costs(node_class, region, overhead_price),
    )


def _family_images(node_class: NodeClass) -> Iterator[Image]:
    """Yield the images of a class that names only a family or an alias; a release that AWS does not have is unknown."""
    for parameter in list_image_parameters(node_class, ""):
        yield Image(parameter.name, parameter.arch, parameter.requirements)


def _status_images(status: Manifest) -> Iterator[Image]:
    for raw in status.get("amis") or ():
        with suppress(InvalidField):  # only Joiner writes the status of a class
            requirements = Requirements.from_kube(raw.get("requirements") or ())
            yield Image(str(raw.get("id", "")), "", requirements, name=str(raw.get("name", "")))
