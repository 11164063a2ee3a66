"""Renders what the nodes of a cluster cost: a line for each pool, the sum, and the comparison with new nodes."""

from collections.abc import Mapping
from typing import Final

from joiner_cli.cluster_cost import HOURS_A_MONTH, ClusterCost, PoolCost
from joiner_cli.rendering.text_columns import format_columns, format_dollars, format_percent, name_pool

PARTS: Final[Mapping[str, str]] = {
    "instance": ">INSTANCES",
    "volumes": ">VOLUMES",
    "address": ">ADDRESSES",
    "running": ">RUNNING",
    "interruptions": ">INTERRUPTIONS",
}
"""The parts of a price by name, with their columns."""
NO_DIFFERENCE: Final = 5e-5
"""$/h. A difference that four decimals do not show."""


def render_cost_table(cost: ClusterCost) -> str:
    """Return the table of the pools and a few sentences."""
    rows = [*cost.pools, *([cost.others] if cost.others else [])]
    if not rows:
        return "There are no nodes among the manifests."
    return "\n\n".join(part for part in (_render_pools(rows), "\n".join(_sentences(cost))) if part)


def _render_pools(rows: list[PoolCost]) -> str:
    parts = [name for name in PARTS if any(one.parts.get(name) for one in rows)]
    headings = ["POOL", ">NODES", ">CPU", ">MEMORY", *(PARTS[name] for name in parts), ">$/H", ">$/MONTH"]
    return format_columns(
        headings,
        [
            [
                name_pool(one.pool) if one.pool else "(not of Joiner)",
                str(one.nodes),
                *(f"{one.requested[name] * 100:.0f} %" if name in one.requested else "-" for name in ("cpu", "memory")),
                *(f"{one.parts[name]:.4f}" if one.parts.get(name) else "-" for name in parts),
                f"{_at_least(one)}{one.price_per_hour:.4f}",
                f"{_at_least(one)}{one.price_per_hour * HOURS_A_MONTH:,.2f}",
            ]
            for one in rows
        ],
    )


def _at_least(one: PoolCost) -> str:
    """Return what stands before a price to which that of some nodes would be added, if it were known."""
    return "≥ " if one.unpriced else ""


def _sentences(cost: ClusterCost) -> list[str]:
    lines = []
    if cost.pools:
        price, least = cost.price_per_hour, "at least " if cost.unpriced else ""
        lines.append(
            f"{_number(cost.nodes, 'node')} of Joiner for {least}{format_dollars(price)}/h, "
            f"${price * HOURS_A_MONTH:,.2f} a month of {HOURS_A_MONTH} hours."
        )
    if unpriced := cost.unpriced + (cost.others.unpriced if cost.others else 0):
        lines.append(
            f"{_number(unpriced, 'node')} without a known price: the catalogue has none for their instance type, zone "
            "and capacity type (`joiner catalogue TYPE`; --catalogue reads another one)."
        )
    if cost.booting:
        verb = "has" if cost.booting == 1 else "have"
        lines.append(
            f"{_number(cost.booting, 'instance')} of them {verb} not joined yet: the comparison leaves "
            f"{'it' if cost.booting == 1 else 'them'} out, with the pods that wait."
        )
    return lines + _comparison(cost)


def _comparison(cost: ClusterCost) -> list[str]:
    anew = cost.anew
    if anew is None:
        return []
    if anew.pending:
        which = ", ".join(one.pod for one in anew.pending[:3])
        return [
            f"No comparison with new nodes: {_number(len(anew.pending), 'pod')} would have no place on them ({which}); "
            "`joiner plan` with these pods pending says why."
        ]
    if cost.lacks_buffers:
        return ["No comparison with new nodes: those that have not joined yet may have the room of capacity buffers."]
    if not cost.is_comparable:
        return ["No comparison with new nodes, because prices are missing."]
    saved = cost.compared_price - anew.price_per_hour
    bound = f"no plan costs less than {format_dollars(anew.lower_bound_per_hour)}/h"
    if anew.optimal:
        bound = "no plan costs less"
    much = (
        "as much" if abs(saved) < NO_DIFFERENCE else f"{format_dollars(abs(saved))}/h {'less' if saved > 0 else 'more'}"
    )
    if abs(saved) >= NO_DIFFERENCE and cost.compared_price:
        much += f" ({format_percent(abs(saved) / cost.compared_price)})"
    return [
        f"Packed anew, the same pods would need {_number(len(anew.nodes), 'node')} for "
        f"{format_dollars(anew.price_per_hour)}/h, {much}; {bound}."
    ]


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
