"""The command `joiner explain pod`: why a pod is placed on a node, or why it stays pending.

For a placed pod, a second plan without its instance type (or without its existing node) gives the cost of the next best
place. ``pending_explanation`` explains pending pods.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from joiner import names
from joiner.cluster import Pod
from joiner.cluster.quantities import format_amount
from joiner.lifecycle.node_deadlines import registration_deadline
from joiner.planning import ExistingNode, Plan, PlannedNode, Snapshot
from joiner.planning.planner import plan
from joiner.pools.timestamps import format_timestamp
from joiner_cli.manifest_plan import ManifestPlan
from joiner_cli.pending_explanation import (
    FITS,
    and_more,
    describe_offer,
    explain_pending_pod,
    find_pool,
    group_types,
)
from joiner_cli.rendering.plan_table import describe_simplification
from joiner_cli.rendering.text_columns import format_columns, format_dollars
from joiner_cli.rendering.text_columns import shorten_names as listed
from joiner_cli.unrequested_types import NO_TYPES, UnrequestedTypes, find_unrequested_types
from joiner_cli.what_if_plans import apply_plan, what_if_effort

EVERY_ZONE: Final = "*"
MAX_SUGGESTIONS: Final = 5  # names that a misspelt name may stand for


class UnknownPod(ValueError):
    """No pod has this name, or several have it."""


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """The text, and whether the pod is placed."""

    text: str
    placed: bool


def explain_pod(name: str, found: ManifestPlan) -> PodExplanation:
    """Return where the pod runs in the plan, or why it is pending. `name` may have a namespace."""
    pod = _find_pod(name, found.manifests.snapshot.pods)
    if pod.node_name:
        return PodExplanation(f"{pod.key} runs on node {pod.node_name}.", placed=True)
    for node in found.plan.nodes:
        if pod.key in node.pods:
            return PodExplanation(_explain_new_node(pod, node, found), placed=True)
    for one in found.plan.existing:
        if pod.key in one.pods:
            return PodExplanation(_explain_existing_node(pod, one, found), placed=True)
    reasons = next((one.reasons for one in found.plan.pending if one.pod == pod.key), ())
    return PodExplanation(explain_pending_pod(pod, reasons, found), placed=False)


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
    offer, pool = node.offer, find_pool(node.pool, found)
    unrequested = find_unrequested_types(pod, pool, found) if pool else NO_TYPES
    used = node.requests + node.daemon_overhead
    lines = [
        f"{pod.key} goes to a new node of {node.pool}: {describe_offer(offer)}.",
        "",
        format_columns(
            ["", ">REQUESTS", ">OF THE POD", ">ALLOCATABLE"],
            [
                [
                    name,
                    *(
                        format_amount(name, amounts.get(name, 0)).rpartition(" ")[0]
                        for amounts in (used, pod.requests, node.allocatable)
                    ),
                ]
                for name in sorted(pod.requests)
            ],
        ),
        "",
        f"Why there: {_explain_choice(pod, node, others, found, unrequested)}",
        *_explain_unrequested(node, others, unrequested),
    ]
    same = [one for one in node.alternatives[1:] if one.price_per_hour <= offer.price_per_hour]
    if same:
        better = " or cheaper" if any(one.price_per_hour < offer.price_per_hour for one in same) else ""
        places = ", ".join(f"{one.instance_type} in {one.zone}" for one in same[:4])
        lines.append(f"As good{better}: {places}{and_more(len(same) - 4)}.")
    lines += _describe_left_out(node, unrequested)
    lines.append(f"Next best: {_plan_next_best(node, found)}")
    return "\n".join(lines)


def _explain_choice(
    pod: Pod, node: PlannedNode, others: Sequence[str], found: ManifestPlan, unrequested: UnrequestedTypes
) -> str:
    large = [group for group in group_types(pod, find_pool(node.pool, found), found) if group.stage == FITS]
    usable = {name for group in large for name in group.types if name not in unrequested.kinds}
    number = len(usable | {node.instance_type})
    can = f"{number:,} instance {'type' if number == 1 else 'types'} of {node.pool} can hold it"
    changed = describe_simplification(found.plan)
    simplified = f", simplified: {changed}" if changed else ""
    if not others:
        return f"{can}; this is the cheapest plan found{simplified}, with the pod alone on its node."
    price = format_dollars(found.plan.price_per_hour)
    return f"{can}; with {listed(others, most=4)} this one is part of the cheapest plan found ({price}/h){simplified}."


def _explain_unrequested(node: PlannedNode, others: Sequence[str], unrequested: UnrequestedTypes) -> list[str]:
    """Return a line about a node of a type that is launched only for pods that ask for it, and the pod does not."""
    name = node.instance_type
    if name not in unrequested.kinds:
        return []
    openers = [one for one in others if one in unrequested.openers[name]]
    if openers:
        return [f"Of this type because {listed(openers)} {'needs' if len(openers) == 1 else 'need'} it."]
    return [f"The last resort ({unrequested.rule(name)}): no place of other types was found."]


def _describe_left_out(node: PlannedNode, unrequested: UnrequestedTypes) -> list[str]:
    """Return lines about the types that could hold the pod, are launched only for pods that ask for them, and of which
    a node costs no more than its node."""
    by_rule: dict[str, list[str]] = {}
    for name, price in sorted(unrequested.prices.items()):
        if name != node.instance_type and price <= node.offer.price_per_hour:
            by_rule.setdefault(unrequested.rule(name), []).append(name)
    return [f"Left out: {listed(cheap, most=4)} ({rule})." for rule, cheap in sorted(by_rule.items())]


def _plan_next_best(node: PlannedNode, found: ManifestPlan) -> str:
    """Plan the node's pods again without its instance type; the rest of the plan stays."""
    snapshot = apply_plan(found, without=node.name)
    short = [(capacity_type, node.instance_type, EVERY_ZONE) for capacity_type in names.CAPACITY_TYPES]
    other = plan(
        snapshot,
        found.catalogue.catalogue,
        short,
        classes=found.classes,
        ceilings=found.request.limits.ceilings,
        effort=what_if_effort(found),
    )
    mine = set(node.pods)
    left = [one.pod for one in other.pending if one.pod in mine]
    if left:
        return f"without {node.instance_type} there is no place for {listed(left)}."
    more = other.price_per_hour - node.price_per_hour
    kinds = sorted({f"{one.instance_type} in {one.zone}" for one in other.nodes})
    if any(mine & set(one.pods) for one in other.existing):
        kinds.append("other nodes of the plan")
    where = f"on {' and '.join(kinds)}"
    number = "its pod" if len(mine) == 1 else f"its {len(mine)} pods"
    change = (
        f"{format_dollars(more)}/h more"
        if more > 0
        else "no more"
        if more == 0
        else f"{format_dollars(-more)}/h less{_why_dearer(found.plan)}"
    )
    return (
        f"without {node.instance_type} {number} would go {where} for {format_dollars(other.price_per_hour)}/h, "
        f"{change}."
    )


def _why_dearer(found: Plan) -> str:
    """Return why a plan was not the cheapest one: it is simplified, or its search was cut short."""
    if describe_simplification(found):
        return "; the plan is simplified (see above)"
    return "; a longer --deadline finds that" if found.cut_short else "; a longer --deadline may find that"


def _explain_existing_node(pod: Pod, there: ExistingNode, found: ManifestPlan) -> str:
    snapshot = apply_plan(found, pending=pod.key)
    closed = tuple(replace(node, unschedulable=True) if node.name == there.node else node for node in snapshot.nodes)
    others = tuple(one for one in snapshot.claims if there.node or one.name != there.claim)
    other = plan(
        replace(snapshot, nodes=closed, claims=others),
        found.catalogue.catalogue,
        classes=found.classes,
        ceilings=found.request.limits.ceilings,
        effort=what_if_effort(found),
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
        offers = ", ".join(describe_offer(one.offer) for one in other.nodes)
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
