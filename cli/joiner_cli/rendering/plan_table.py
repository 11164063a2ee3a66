"""Renders a plan as text: its price, its distance from the lower bound, the nodes in groups, and the pending pods.

Nodes with the same pool, instance type, zone and capacity type share a line. The shares of CPU and memory are requests
and daemon overhead divided by allocatable.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from joiner.cluster import Resources, sum_resources
from joiner.planning import PendingPod, Plan, PlannedNode, Reason, UnlaunchedNodes
from joiner_cli.rendering.text_columns import format_columns, format_dollars, format_percent, name_pool, shorten_names

LEAST_SHOWN: Final = 5e-5
"""$/h. Less is zero with four decimals."""
PART_NAMES: Final = {
    "instance": "for instances",
    "volumes": "for volumes",
    "address": "for public addresses",
    "running": "for the running of nodes",
    "interruptions": "for interruptions of spot nodes, which are not billed",
}


def render_plan_table(plan: Plan) -> str:
    """Return the summary and the tables, with a blank line between them."""
    parts = [
        render_plan_summary(plan),
        _render_nodes(plan.nodes),
        _render_existing(plan),
        _render_pending(plan.pending),
        _render_unlaunched(plan.unlaunched),
    ]
    return "\n\n".join(part for part in parts if part)


def render_plan_summary(plan: Plan) -> str:
    """Return the number of nodes and pods and the price, in up to four lines."""
    if not (plan.nodes or plan.existing or plan.pending or plan.unlaunched):
        return "No pods are pending: nothing to do."
    lines = [_count_nodes_and_pods(plan)]
    if plan.nodes:
        lines.append(f"{format_dollars(plan.price_per_hour)}/h, {_describe_bound(plan)}.")
        lines += [*describe_commitments(plan), *describe_parts(plan)]
        lines += [f"Simplified: {text}." for text in [describe_simplification(plan)] if text]
    greedy = plan.greedy_price_per_hour
    if plan.nodes and greedy is not None and greedy > plan.price_per_hour * 1.0005:
        lines.append(
            f"First-fit as Karpenter packs would cost {format_dollars(greedy)}/h, "
            f"{format_percent(greedy / plan.price_per_hour - 1)} more."
        )
    return "\n".join(lines)


def describe_commitments(plan: Plan) -> list[str]:
    """Return one line with the list price, if commitments of the account pay for a part of it."""
    committed = plan.committed_per_hour
    if not committed:
        return []
    covered = sum(1 for node in plan.nodes if node.offer.committed)
    return [
        f"The list price is {format_dollars(plan.price_per_hour + committed)}/h: reserved instances and savings plans "
        f"pay for {format_dollars(committed)}/h, the instances of {_number(covered, 'node')}."
    ]


def describe_parts(plan: Plan) -> list[str]:
    """Return one line with the parts of the price; none if the nodes cost nothing beside their instances."""
    parts = {name: amount for name, amount in plan.price_parts.items() if amount}
    if parts.keys() <= {"instance"}:
        return []
    named = [f"{format_dollars(amount)} {PART_NAMES[name]}" for name, amount in parts.items()]
    return [f"Of this: {', '.join(named)}."]


def describe_simplification(plan: Plan) -> str:
    """Return what the last step of planning changed and the settings that allow it; empty if that costs nothing."""
    changed = plan.simplified
    if changed.price_per_hour < LEAST_SHOWN:
        return ""
    fewer = [f"{_number(n, noun)} fewer" for n, noun in ((changed.nodes, "node"), (changed.types, "type")) if n > 0]
    zones = [f"{_number(changed.moved, 'node')} in other zones"] if changed.moved else []
    settings = ["planning.fewerNodesTolerancePercent"] if fewer else []
    settings += ["planning.zoneSpreadTolerancePercent"] if zones else []
    if not settings:
        return ""
    return f"{format_dollars(changed.price_per_hour)}/h for {', '.join([*fewer, *zones])} ({', '.join(settings)})"


def _describe_bound(plan: Plan) -> str:
    if plan.optimal:
        return "which is optimal: no plan for these pods costs less"
    if not plan.lower_bound_per_hour:
        return "above the lower bound of $0/h: free capacity or commitments could be enough"
    return f"{format_percent(plan.gap)} above the lower bound of {format_dollars(plan.lower_bound_per_hour)}/h"


def _count_nodes_and_pods(plan: Plan) -> str:
    new = sum(len(node.pods) for node in plan.nodes)
    there = sum(len(one.pods) for one in plan.existing)
    parts = [f"{_number(len(plan.nodes), 'new node')} for {_number(new, 'pod')}"] if plan.nodes else []
    parts += [f"{_number(there, 'pod')} on {_number(len(plan.existing), 'existing node')}"] if there else []
    parts += [f"{_number(len(plan.pending), 'pod')} pending"] if plan.pending else []
    if lacking := sum(one.nodes for one in plan.unlaunched):
        parts.append(f"{_number(lacking, 'node')} of claims and static pools not launched")
    return f"{', '.join(parts)}."


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _render_nodes(nodes: Iterable[PlannedNode]) -> str:
    groups: dict[tuple[str, ...], list[PlannedNode]] = {}
    for node in nodes:
        key = (node.pool, name_pool(node.pool), node.instance_type, node.zone, node.capacity_type)
        groups.setdefault(key, []).append(node)
    rows = []
    for (_, pool, instance_type, zone, capacity_type), alike in groups.items():
        price = sum(node.price_per_hour for node in alike)
        used = sum_resources([*(node.requests for node in alike), *(node.daemon_overhead for node in alike)])
        allocatable = sum_resources(node.allocatable for node in alike)
        pods = [pod for node in alike for pod in node.pods]
        rows.append(
            [
                str(len(alike)),
                pool,
                instance_type,
                zone,
                capacity_type,
                f"{alike[0].price_per_hour:.4f}",
                f"{price:.4f}",
                str(len(pods)),
                _share(used, allocatable, "cpu"),
                _share(used, allocatable, "memory"),
                shorten_names(pods, most=3),
            ]
        )
    headings = [
        ">NODES",
        "POOL",
        "INSTANCE TYPE",
        "ZONE",
        "CAPACITY",
        ">$/H EACH",
        ">$/H",
        ">PODS",
        ">CPU",
        ">MEMORY",
        "WHICH",
    ]
    return format_columns(headings, rows) if rows else ""


def _share(used: Resources, allocatable: Resources, name: str) -> str:
    there = allocatable.get(name, 0)
    return f"{used.get(name, 0) / there * 100:.0f} %" if there else "-"


def _render_existing(plan: Plan) -> str:
    rows = [
        [one.node or f"(joining) {one.claim}", str(len(one.pods)), shorten_names(one.pods)] for one in plan.existing
    ]
    return format_columns(["EXISTING NODE", ">PODS", "WHICH"], rows) if rows else ""


def _render_pending(pending: Sequence[PendingPod]) -> str:
    """Return the table of pending pods; pods with the same reasons share lines."""
    groups: dict[tuple[Reason, ...], list[str]] = {}
    for one in pending:
        groups.setdefault(one.reasons, []).append(one.pod)
    rows = []
    for reasons, pods in groups.items():
        shown = [f"{len(pods):,}", shorten_names(pods, most=3)]
        for text, pools in _group_reasons(reasons):
            rows.append([*shown, shorten_names(pools, most=3), text])
            shown = ["", ""]
        if not reasons:
            rows.append([*shown, "-", "no reason was found"])
    return format_columns([">PENDING", "WHICH", "POOL", "WHY"], rows) if rows else ""


def _group_reasons(reasons: Iterable[Reason]) -> list[tuple[str, list[str]]]:
    """Return each reason with the pools that have it, those of the fewest pools first: most pools of a large cluster
    exclude a pod for the same reason, which says least."""
    pools: dict[str, list[str]] = {}
    for reason in reasons:
        pools.setdefault(describe_reason(reason), []).append(reason.pool or "-")
    return sorted(pools.items(), key=lambda one: len(one[1]))


def _render_unlaunched(unlaunched: Iterable[UnlaunchedNodes]) -> str:
    """Return the table of the nodes that standalone claims and static pools lack."""
    rows = [[f"{one.nodes:,}", one.owner, one.reason] for one in unlaunched]
    return format_columns([">NOT LAUNCHED", "FOR", "WHY"], rows) if rows else ""


def describe_reason(reason: Reason) -> str:
    """Return the reason, with the nearest offering."""
    return f"{reason.reason} ({reason.near})" if reason.nearest else reason.reason
