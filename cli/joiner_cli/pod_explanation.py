"""The command `joiner explain pod`: why a pod is placed on a node, or why it stays pending.

For a pending pod, the explanation lists for each pool and each group of instance types the first rule that excludes the
pod, in the order of the planner: the pool's requirements, its offerings, the pod's requirements, the pod's size; then
limits and the constraints between pods. For a placed pod, a second plan without its instance type (or without its
existing node) gives the cost of the next best place.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from joiner import names
from joiner.catalogue import InstanceType, Offering, compute_allocatable
from joiner.cluster import Node, Pod, Requirements, VolumeUnusable, sum_resources
from joiner.cluster.quantities import format_amount
from joiner.lifecycle.deadlines import registration_deadline
from joiner.planning import ExistingNode, Offer, PlannedNode, Reason, Snapshot, plan
from joiner.planning.effort import Effort
from joiner.planning.model.node_offers import INSTANCE_LABELS, node_labels
from joiner.planning.output.explanation import NO_TERMS
from joiner.pools import NodePool
from joiner.pools.timestamps import format_timestamp
from joiner_cli.manifest_plan import ManifestPlan
from joiner_cli.rendering.text_columns import format_columns, format_dollars
from joiner_cli.rendering.text_columns import shorten_names as listed

EVERY_ZONE: Final = "*"
MAX_SUGGESTIONS: Final = 5  # names that a misspelt name may stand for
WHAT_IF_SECONDS: Final = 0.5  # a what-if plan concerns a few pods


class UnknownPod(ValueError):
    """No pod has this name, or several have it."""


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """The text, and whether the pod is placed."""

    text: str
    placed: bool


def explain_pod(name: str, found: ManifestPlan) -> PodExplanation:
    pod = _find_pod(name, found.world.snapshot.pods)
    if pod.node_name:
        return PodExplanation(f"{pod.key} runs on node {pod.node_name}.", placed=True)
    for node in found.plan.nodes:
        if pod.key in node.pods:
            return PodExplanation(_explain_new_node(pod, node, found), placed=True)
    for one in found.plan.existing:
        if pod.key in one.pods:
            return PodExplanation(_explain_existing_node(pod, one, found), placed=True)
    reasons = next((one.reasons for one in found.plan.pending if one.pod == pod.key), ())
    return PodExplanation(_explain_pending(pod, reasons, found), placed=False)


def _find_pod(name: str, pods: Sequence[Pod]) -> Pod:
    matches = [pod for pod in pods if pod.key == name or ("/" not in name and pod.name == name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UnknownPod(
            f"several pods have the name {name}: {', '.join(pod.key for pod in matches)}; give the namespace, too"
        )
    near = [pod.key for pod in pods if name.rpartition("/")[2] in pod.name]
    raise UnknownPod(
        f"there is no pod {name} (pods of a Deployment are called NAMESPACE/DEPLOYMENT-0 and so on){_suggest(near)}"
    )


def _suggest(near: Sequence[str]) -> str:
    more = f" and {len(near) - MAX_SUGGESTIONS} more" if len(near) > MAX_SUGGESTIONS else ""
    return f"; there are {', '.join(near[:MAX_SUGGESTIONS])}{more}" if near else ""


# Placed pods
# ----------------------------------------------------------------------------------------------------------------------


def _explain_new_node(pod: Pod, node: PlannedNode, found: ManifestPlan) -> str:
    others = [one for one in node.pods if one != pod.key]
    offer = node.offer
    used = node.requests + node.daemon_overhead
    lines = [
        f"{pod.key} goes to a new node of {node.pool}: {_describe_offer(offer)}.",
        "",
        format_columns(
            ["", ">REQUESTS", ">OF THE POD", ">ALLOCATABLE"],
            [
                [
                    name,
                    *(
                        format_amount(name, amounts.get(name, 0)).removesuffix(f" {name}")
                        for amounts in (used, pod.requests, node.allocatable)
                    ),
                ]
                for name in sorted(pod.requests)
            ],
        ),
        "",
        f"Why there: {_explain_choice(pod, node, others, found)}",
    ]
    same = [one for one in node.alternatives[1:] if one.price_per_hour <= offer.price_per_hour]
    if same:
        lines.append(
            f"As good: {', '.join(f'{one.instance_type} in {one.zone}' for one in same[:4])}{_more(len(same) - 4)}."
        )
    lines.append(f"Next best: {_plan_next_best(node, found)}")
    return "\n".join(lines)


def _explain_choice(pod: Pod, node: PlannedNode, others: Sequence[str], found: ManifestPlan) -> str:
    large = [group for group in _group_types(pod, _find_pool(node.pool, found), found) if group.stage == FITS]
    number = sum(len(group.types) for group in large)
    can = f"{number:,} instance types of {node.pool} can hold it"
    if not others:
        return f"{can}; this is the cheapest plan found, with the pod alone on its node."
    price = format_dollars(found.plan.price_per_hour)
    return f"{can}; with {listed(others, most=4)} this one is part of the cheapest plan found ({price}/h)."


def _plan_next_best(node: PlannedNode, found: ManifestPlan) -> str:
    """Plan the node's pods again without its instance type; the rest of the plan stays."""
    snapshot = _apply_plan(found, without=node.name)
    short = [(capacity_type, node.instance_type, EVERY_ZONE) for capacity_type in names.CAPACITY_TYPES]
    other = plan(
        snapshot,
        found.market.catalogue,
        short,
        classes=found.classes,
        effort=_effort(found),
    )
    mine = set(node.pods)
    left = [one.pod for one in other.pending if one.pod in mine]
    if left:
        return f"without {node.instance_type} there is no place for {listed(left)}."
    more = other.price_per_hour - node.price_per_hour
    kinds = sorted({f"{one.instance_type} in {one.zone}" for one in other.nodes})
    where = f"on {', '.join(kinds)}" if kinds else "on other nodes of the plan"
    number = "its pod" if len(mine) == 1 else f"its {len(mine)} pods"
    change = (
        f"{format_dollars(more)}/h more"
        if more > 0
        else "no more"
        if more == 0
        else f"{format_dollars(-more)}/h less; a longer --deadline finds that"
    )
    return (
        f"without {node.instance_type} {number} would go {where} for {format_dollars(other.price_per_hour)}/h, "
        f"{change}."
    )


def _explain_existing_node(pod: Pod, there: ExistingNode, found: ManifestPlan) -> str:
    snapshot = _apply_plan(found, pending=pod.key)
    closed = tuple(replace(node, unschedulable=True) if node.name == there.node else node for node in snapshot.nodes)
    others = tuple(one for one in snapshot.claims if there.node or one.name != there.claim)
    other = plan(
        replace(snapshot, nodes=closed, claims=others),
        found.market.catalogue,
        classes=found.classes,
        effort=_effort(found),
    )
    where = f"node {there.node}" if there.node else _describe_joining_node(there.claim, snapshot)
    lines = [
        f"{pod.key} goes to {where}, which has enough free resources.",
        "",
        "Why there: an existing node costs nothing more.",
    ]
    place = next((one for one in other.existing if pod.key in one.pods), None)
    if any(one.pod == pod.key for one in other.pending):
        lines.append("Next best: there is none.")
    elif place is not None:
        lines.append(f"Next best: node {place.node or place.claim}, at no cost, too.")
    else:
        offers = ", ".join(_describe_offer(one.offer) for one in other.nodes)
        lines.append(f"Next best: a new node, {offers}: {format_dollars(other.price_per_hour)}/h more.")
    return "\n".join(lines)


def _describe_joining_node(name: str, snapshot: Snapshot) -> str:
    """Describe a node that has not registered yet: its NodeClaim, its instance, and its registration deadline."""
    claim = next((one for one in snapshot.claims if one.name == name), None)
    deadline = registration_deadline(claim) if claim else None
    if claim is None or deadline is None:
        return f"the node of NodeClaim {name}, which has not registered yet"
    return (
        f"the node of NodeClaim {name} (instance {claim.instance_id}; it may join until {format_timestamp(deadline)})"
    )


def _effort(found: ManifestPlan) -> Effort:
    seconds = min(found.question.deadline, WHAT_IF_SECONDS)
    return Effort(seconds=seconds, seed=found.question.seed, clock=time.perf_counter)


def _apply_plan(found: ManifestPlan, *, without: str = "", pending: str = "") -> Snapshot:
    """Return the snapshot after the plan, without the planned node `without`, and with the pod `pending` unplaced."""
    before = found.world.snapshot
    planned = [node for node in found.plan.nodes if node.name != without]
    place = {pod: node.name for node in planned for pod in node.pods} | {
        pod: one.node for one in found.plan.existing for pod in one.pods
    }
    place.pop(pending, None)
    nodes = [
        Node(node.name, labels={**node.labels, names.HOSTNAME: node.name}, taints=node.taints, capacity=node.capacity,
             allocatable=node.allocatable, ready=True)
        for node in planned
    ]  # fmt: skip
    pods = tuple(
        replace(pod, node_name=place[pod.key], phase="Running") if place.get(pod.key) else pod for pod in before.pods
    )
    waiting = {one.pod for one in found.plan.pending}
    return replace(before, nodes=(*before.nodes, *nodes), pods=tuple(pod for pod in pods if pod.key not in waiting))


# Pending pods
# ---------------------------------------------------------------------------------------------------------------------

POOL, OFFERED, POD, SIZE, FITS = range(5)
"""The rules that exclude an instance type, in the order of the planner; FITS means that none of them does."""


@dataclass(frozen=True, slots=True)
class TypeGroup:
    """Instance types that the same rule excludes; ``remedy`` is the most common remedy among them."""

    stage: int
    rule: str
    types: tuple[str, ...]
    remedy: str = ""


def _explain_pending(pod: Pod, reasons: Sequence[Reason], found: ManifestPlan) -> str:
    asked = ", ".join(format_amount(name, value) for name, value in pod.requests.items() if name != "pods")
    lines = [f"{pod.key} stays pending. It requests {asked or 'nothing'}."]
    for reason in reasons:
        pool = _find_pool(reason.pool, found)
        lines += ["", f"{reason.pool or 'Every pool'}: {reason.reason}."]
        if pool is None:
            continue
        groups = _group_types(pod, pool, found)
        if pod.constraints.untolerated(pool.taints) is None:
            rows = [
                [f"{len(group.types):,}", _summarize_types(group.types), _first_rule(group, reason)] for group in groups
            ]
            lines.append(format_columns([">TYPES", "WHICH", "FIRST RULE THAT EXCLUDES THE POD"], rows, indent="  "))
        if reason.nearest:
            short = f"; it is short of {reason.short_of}" if reason.lacks else ""
            lines.append(f"  Nearest: {_describe_offer(reason.nearest)}{short}.")
        if give := _necessary_change(pod, pool, reason, groups):
            lines.append(f"  What would have to change: {give}.")
    return "\n".join(lines)


def _first_rule(group: TypeGroup, reason: Reason) -> str:
    return reason.reason if group.stage == FITS else group.rule


def _necessary_change(pod: Pod, pool: NodePool, reason: Reason, groups: Sequence[TypeGroup]) -> str:
    taint = pod.constraints.untolerated(pool.taints)
    if taint is not None:
        return f"the pod would have to tolerate {taint}, or the pool would have to remove it"
    if not groups:
        return ""
    last = max(groups, key=lambda group: (group.stage, len(group.types)))
    if last.stage == FITS and "limit" in reason.reason:
        return "the pool's limits would have to be raised, or other nodes of the pool removed"
    if last.stage == FITS:
        return (
            "the constraint above would have to allow one more pod, or another pool or zone would have to accept the "
            "pod"
        )
    if last.stage == SIZE and reason.lacks:
        return f"the pod would have to request {reason.short_of} less, or the pool would have to allow larger types"
    return last.remedy


def _group_types(pod: Pod, pool: NodePool | None, found: ManifestPlan) -> list[TypeGroup]:
    """Group all instance types of the catalogue by the rule that excludes the pod, in the order of the planner."""
    if pool is None:
        return []
    wanted = _pod_requirements(pod, found.world.snapshot)
    daemons = found.world.snapshot.daemon_sets
    grouped: dict[tuple[int, str], dict[str, list[str]]] = {}
    for known in found.market.catalogue.types.values():
        stage, rule, remedy = _first_failed_rule(pod, pool, known, wanted, found)
        if stage == FITS:
            own = found.world.snapshot.node_class(pool)
            labels = node_labels(pool, known, "", "")
            overhead = sum_resources(one.requests for one in daemons if one.runs_on(labels, pool.taints))
            lacks = pod.requests.lacking(compute_allocatable(known, own, pool) - overhead)
            if lacks:
                stage, rule, remedy = SIZE, f"too small: short of {' and '.join(sorted(lacks))}", ""
        grouped.setdefault((stage, rule), {}).setdefault(remedy, []).append(known.name)
    return [
        TypeGroup(
            stage, rule, tuple(sorted(name for types in found.values() for name in types)), _most_common_remedy(found)
        )
        for (stage, rule), found in sorted(grouped.items())
    ]


def _most_common_remedy(remedies: Mapping[str, Sequence[str]]) -> str:
    """Return the remedy that applies to the most types."""
    return max(remedies, key=lambda remedy: (len(remedies[remedy]), remedy))


def _pod_requirements(pod: Pod, snapshot: Snapshot) -> tuple[Requirements, ...]:
    own = pod.constraints.on_new_nodes()
    try:
        places = (
            snapshot.volumes.where(pod.namespace, pod.constraints.claims)
            if pod.constraints.claims
            else (Requirements(),)
        )
    except VolumeUnusable:
        places = (Requirements(),)
    return tuple(one & place for one, place in product(own, places))


def _first_failed_rule(
    pod: Pod, pool: NodePool, known: InstanceType, wanted: Sequence[Requirements], found: ManifestPlan
) -> tuple[int, str, str]:
    """Return the stage, the rule and the remedy for one type; the pod's size is not checked here."""
    labels = node_labels(pool, known, "", "")
    open_keys = {key for key in pool.requirements if not INSTANCE_LABELS.fullmatch(key) and key not in pool.labels}
    place = {names.ZONE, names.CAPACITY_TYPE, names.REGION, names.HOSTNAME}
    if key := _unmet_key(pool.requirements, labels, place | open_keys):
        return (
            POOL,
            f"the pool requires {key} {pool.requirements[key]}",
            f"{pool.key} would have to allow other values of {key}",
        )
    zones = found.classes[pool.class_ref.key].zones
    offered = [one for one in known.offerings if one.available and one.zone in zones]
    allowed = [
        one
        for one in offered
        if pool.requirements.allow({**labels, **_offering_labels(one), **dict.fromkeys(open_keys, "")})
        or not _unmet_key(pool.requirements, {**labels, **_offering_labels(one)}, open_keys | {names.HOSTNAME})
    ]
    if not allowed:
        rule = "it has no offering in the zones and capacity types of the pool"
        return (
            OFFERED,
            rule,
            f"{pool.key} would have to allow {_describe_offerings(offered) or 'a zone with offerings'}",
        )
    rules = {_failed_pod_requirement(one, labels, allowed, open_keys, pool) for one in wanted}
    if not rules or "" in rules:
        return (FITS, "", "") if wanted else (POD, *_unsatisfiable_affinity(pod))
    rule = " or ".join(sorted(rules))
    return POD, f"the pod requires {rule}", f"the pod would have to drop {rule}, or {pool.key} would have to allow it"


def _unsatisfiable_affinity(pod: Pod) -> tuple[str, str]:
    """Return the rule and the remedy for a pod whose node affinity no new node can satisfy."""
    if pod.constraints.suits_no_node:
        return NO_TERMS, "its empty node selector terms would have to be filled in or removed"
    return "the pod requires a node by name", "the pod would have to drop the node name"


def _failed_pod_requirement(
    wanted: Requirements, labels: Mapping[str, str], allowed: Iterable[Offering], open_keys: set[str], pool: NodePool
) -> str:
    """Return the pod requirement that no offering of this type satisfies; empty if an offering satisfies all."""
    rules = []
    for offering in allowed:
        there = {**labels, **_offering_labels(offering)}
        key = _unmet_key(wanted, there, open_keys)
        if not key:
            closed = [key for key in wanted if key in open_keys and not (wanted[key] & pool.requirements[key])]
            key = closed[0] if closed else ""
        if not key:
            return ""
        rules.append(f"{key} {wanted[key]}")
    return sorted(rules)[0]


def _unmet_key(requirements: Requirements, labels: Mapping[str, str], ignored: Iterable[str]) -> str:
    left_out = set(ignored)
    return next(
        (key for key, values in sorted(requirements.items())
         if key not in left_out and not Requirements({key: values}).allow(labels)),
        "",
    )  # fmt: skip


def _offering_labels(offering: Offering) -> dict[str, str]:
    region = offering.zone[:-1]
    return {names.ZONE: offering.zone, names.CAPACITY_TYPE: offering.capacity_type, names.REGION: region}


def _describe_offerings(offerings: Sequence[Offering]) -> str:
    return ", ".join(sorted({f"{one.capacity_type} in {one.zone}" for one in offerings})[:4])


def _find_pool(key: str, found: ManifestPlan) -> NodePool | None:
    return next((pool for pool in found.world.snapshot.pools if key in (pool.key, pool.name)), None)


def _summarize_types(types: Sequence[str]) -> str:
    """Return the names of up to three types, or the largest families: ``m5.* (9), c5.* (8)``."""
    if len(types) <= 3:
        return ", ".join(types)
    families: dict[str, int] = {}
    for one in types:
        family = one.partition(".")[0]
        families[family] = families.get(family, 0) + 1
    families_text = [
        f"{family}.* ({number})" for family, number in sorted(families.items(), key=lambda one: (-one[1], one[0]))
    ]
    return ", ".join(families_text[:3]) + _more(len(families_text) - 3, "families")


def _more(number: int, noun: str = "") -> str:
    return f" and {number} more{f' {noun}' if noun else ''}" if number > 0 else ""


def _describe_offer(offer: Offer) -> str:
    return f"{offer.instance_type} in {offer.zone}, {offer.capacity_type}, {format_dollars(offer.price_per_hour)}/h"
