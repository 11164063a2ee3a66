"""Renders a plan as one self-contained HTML page, without scripts, fonts or requests.

Each node is a box with one bar for each resource; the bar's length is the node's allocatable amount. A block in the bar
is as wide as the share that the pods of one workload request. Daemon overhead is grey, free resources are white. The
reasons show under the mouse pointer.
"""

import hashlib
import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from joiner.cluster import Pod, Resources, sum_resources
from joiner.cluster.quantities import format_amount
from joiner.planning import Plan, PlannedNode, Reason
from joiner_cli.rendering.plan_table import describe_reason, render_plan_summary
from joiner_cli.rendering.text_columns import format_dollars, format_percent, name_pool, shorten_names

MAX_DRAWN_NODES: Final = 2000
"""Browsers become slow with more boxes; `-o table` shows all nodes."""
ALWAYS_DRAWN: Final = ("cpu", "memory")
NEVER_DRAWN: Final = frozenset({"pods", "ephemeral-storage"})

STYLE: Final = """
:root{color-scheme:light;--ink:#1d2733;--soft:#64748b;--line:#cbd5e1;--paper:#f8fafc}
*{box-sizing:border-box}body{margin:0;padding:24px 28px 140px;background:var(--paper);color:var(--ink);font:14px/1.45
system-ui,sans-serif} h1{font-size:20px;margin:0 0 4px}h2{font-size:15px;margin:28px 0 10px}p{margin:2px
0;color:var(--soft)} .nodes{display:flex;flex-wrap:wrap;gap:14px} .node{width:300px;background:#fff;border:1px solid
var(--line);border-radius:8px;padding:9px 11px 11px;position:relative} .node b{font-weight:600} .node
small{color:var(--soft);display:block;margin-bottom:5px}.price{float:right;font-variant-numeric:tabular-nums}
.lane{display:flex;align-items:center;gap:6px;margin-top:4px} .lane
i{width:52px;font-style:normal;font-size:11px;color:var(--soft);overflow:hidden}
.bar{flex:1;display:flex;height:24px;border:1px solid var(--line);border-radius:3px;background:#fff}
.block{position:relative;height:100%;border-right:1px solid #fff;min-width:1px;cursor:default}
.daemons{background:repeating-linear-gradient(45deg,#cbd5e1 0 4px,#e2e8f0 4px 8px)!important}
[data-why]:hover::after{content:attr(data-why);position:fixed;left:28px;right:28px;bottom:16px;z-index:9;
background:var(--ink);color:#fff;padding:10px 14px;border-radius:8px;font-size:13px;
white-space:pre-line;max-height:40vh;overflow:hidden}
.block:hover{outline:2px solid var(--ink);z-index:2} table{border-collapse:collapse;background:#fff;border:1px solid
var(--line)} td,th{padding:5px 10px;text-align:left;border-top:1px solid var(--line);vertical-align:top}
th{font-weight:600;color:var(--soft);border-top:0}.none{color:var(--soft)}
"""


@dataclass(frozen=True, slots=True)
class _Box:
    """What the page shows of one node, planned or existing."""

    title: str
    below: str
    price: str
    why: str
    allocatable: Resources
    daemons: Resources
    blocks: Sequence[tuple[str, Sequence[str], Resources]]


def render_plan_page(
    plan: Plan, pods: Iterable[Pod], existing: Mapping[str, Resources] | None = None, *, notes: Sequence[str] = ()
) -> str:
    """Return the page as HTML.

    ``pods`` are those of the snapshot, for their requests; ``existing`` holds the allocatable resources of existing
    nodes by name; ``notes`` are the problems of the manifests.
    """
    requests = {pod.key: pod.requests for pod in pods}
    boxes = [_box_of_planned_node(node, requests) for node in plan.nodes[:MAX_DRAWN_NODES]]
    there = [
        _Box(
            title=one.node or one.claim,
            below="exists" if one.node else "has not registered yet",
            price="",
            why="An existing node costs nothing more.",
            allocatable=(existing or {}).get(one.node, Resources()),
            daemons=Resources(),
            blocks=_blocks(one.pods, requests),
        )
        for one in plan.existing[:MAX_DRAWN_NODES]
    ]
    lines = render_plan_summary(plan).split("\n")
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>Joiner: a plan</title>",
        f"<style>{STYLE}</style></head><body>",
        f"<h1>{_escape(lines[0])}</h1>",
        *(f"<p>{_escape(line)}</p>" for line in lines[1:]),
        _render_section("New nodes", boxes, len(plan.nodes)),
        _render_section("Existing nodes", there, len(plan.existing)),
        _render_pending(plan),
        _render_unlaunched(plan),
        f"<h2>Problems and notes</h2><ul>{''.join(f'<li>{_escape(one)}</li>' for one in notes)}</ul>" if notes else "",
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part)


def _render_section(title: str, boxes: Sequence[_Box], number: int) -> str:
    if not boxes:
        return ""
    more = f"<p>and {number - len(boxes):,} more</p>" if number > len(boxes) else ""
    return f"<h2>{title}</h2><div class=nodes>{''.join(map(_render_box, boxes))}</div>{more}"


def _box_of_planned_node(node: PlannedNode, requests: Mapping[str, Resources]) -> _Box:
    offer = node.offer
    near = [one for one in node.alternatives if one != offer][:6]
    price = f"{format_dollars(node.price_per_hour)}/h"
    why = [f"{node.name}: {node.instance_type} in {node.zone}, {node.capacity_type}, {price}, from {node.pool}"]
    why.append(f"{len(node.pods)} pods: {shorten_names(node.pods, most=8)}")
    used = node.requests + node.daemon_overhead
    shares = [
        f"{_share(used, node.allocatable, name)} of {format_amount(name, node.allocatable[name])}"
        for name in ALWAYS_DRAWN
        if node.allocatable.get(name)
    ]
    why.append(f"uses {', '.join(shares)}")
    if near:
        near_text = ", ".join(f"{one.instance_type} in {one.zone} {format_dollars(one.price_per_hour)}" for one in near)
        why.append(f"alternatives: {near_text}")
    else:
        why.append("no other offering within 10 % of its price can hold these pods")
    return _Box(
        title=node.instance_type,
        below=f"{name_pool(node.pool)} · {node.zone} · {node.capacity_type}",
        price=price,
        why="\n".join(why),
        allocatable=node.allocatable,
        daemons=node.daemon_overhead,
        blocks=_blocks(node.pods, requests),
    )


def _blocks(pods: Sequence[str], requests: Mapping[str, Resources]) -> list[tuple[str, Sequence[str], Resources]]:
    """Group pods by workload: its name, its pods, their total requests."""
    grouped: dict[str, list[str]] = {}
    for pod in pods:
        prefix, _, number = pod.rpartition("-")
        grouped.setdefault(prefix if number.isdecimal() and prefix else pod, []).append(pod)
    return [
        (name, mine, sum_resources(requests.get(pod, Resources()) for pod in mine)) for name, mine in grouped.items()
    ]


def _render_box(box: _Box) -> str:
    lanes = [
        *ALWAYS_DRAWN,
        *sorted({name for _, _, asked in box.blocks for name in asked} - {*ALWAYS_DRAWN, *NEVER_DRAWN}),
    ]
    return (
        f'<div class=node><div data-why="{_escape(box.why)}"><span '
        f"class=price>{_escape(box.price)}</span><b>{_escape(box.title)}</b>"
        f"<small>{_escape(box.below)}</small></div>{''.join(_render_lane(name, box) for name in lanes)}</div>"
    )


def _render_lane(name: str, box: _Box) -> str:
    allocatable = box.allocatable.get(name) or sum(asked.get(name, 0) for _, _, asked in box.blocks) or 1
    drawn = []
    if box.daemons.get(name):
        why = f"DaemonSets request {format_amount(name, box.daemons[name])}"
        drawn.append(
            f'<div class="block daemons" style="width:{box.daemons[name] / allocatable * 100:.2f}%" '
            f'data-why="{_escape(why)}"></div>'
        )
    for workload, pods, asked in box.blocks:
        if asked.get(name):
            each = f"{len(pods)} of " if len(pods) > 1 else ""
            why = (
                f"{shorten_names(pods, most=8)}\n{each}{_describe_amounts(asked, len(pods))}\non {box.title}, "
                f"{box.below}\n{box.why}"
            )
            style = f"width:{asked[name] / allocatable * 100:.2f}%;background:{_colour(workload)}"
            drawn.append(f'<div class=block style="{style}" data-why="{_escape(why)}"></div>')
    short = name.rpartition("/")[2]
    return f"<div class=lane><i>{_escape(short)}</i><div class=bar>{''.join(drawn)}</div></div>"


def _describe_amounts(asked: Resources, number: int) -> str:
    return ", ".join(format_amount(name, value // number) for name, value in sorted(asked.items()) if name != "pods")


def _render_pending(plan: Plan) -> str:
    if not plan.pending:
        return ""
    groups: dict[tuple[Reason, ...], list[str]] = {}
    for one in plan.pending:
        groups.setdefault(one.reasons, []).append(one.pod)
    rows = []
    for one in plan.pending:
        if one.reasons in groups:
            pods = groups.pop(one.reasons)
            why = "<br>".join(
                _escape(f"{reason.pool}: {describe_reason(reason)}" if reason.pool else describe_reason(reason))
                for reason in one.reasons
            )
            rows.append(f"<tr><td>{len(pods):,}</td><td>{_escape(shorten_names(pods))}</td><td>{why}</td></tr>")
    return f"<h2>Pending</h2><table><tr><th>Pods</th><th>Which</th><th>Why</th></tr>{''.join(rows)}</table>"


def _render_unlaunched(plan: Plan) -> str:
    rows = [
        f"<tr><td>{one.nodes:,}</td><td>{_escape(one.owner)}</td><td>{_escape(one.reason)}</td></tr>"
        for one in plan.unlaunched
    ]
    head = "<h2>Not launched</h2><table><tr><th>Nodes</th><th>For</th><th>Why</th></tr>"
    return f"{head}{''.join(rows)}</table>" if rows else ""


def _share(used: Resources, allocatable: Resources, name: str) -> str:
    return format_percent(used.get(name, 0) / allocatable[name])


def _colour(workload: str) -> str:
    """Return the colour of a workload; it is the same on every node."""
    digest = hashlib.blake2b(workload.encode(), digest_size=2).digest()
    return f"hsl({int.from_bytes(digest, 'big') % 360} 62% 62%)"


def _escape(text: str) -> str:
    return html.escape(text, quote=True)
