"""Plans of small clusters for tests: every plan is checked, drawn as lines, and has its reasons."""

from collections.abc import Mapping, Sequence
from typing import Any

from joiner.planning import Plan
from tests.plan_checker import check_plan
from tests.unit.planning.drawn_clusters import CATALOGUE, ZONES, Json, node_pool, planned


def drawn(plan: Plan) -> list[str]:
    """Return each planned node as one line: type, zone, capacity type, pods."""
    return [
        f"{node.instance_type} {node.zone[-1]} {node.capacity_type}: {' '.join(name[8:] for name in node.pods)}"
        for node in plan.nodes
    ]


def cluster(waiting: Sequence[Json], *pools: Json, **more: Sequence[Json]) -> dict[str, Sequence[Json]]:
    return {"pods": waiting, "nodepools": pools or (node_pool(),), **more}


def checked(lists: Mapping[str, Sequence[Json]], **more: Any) -> Plan:
    plan = planned(lists, **more)
    defaults = more.get("default_spreads", ())
    assert check_plan(lists, more.get("catalogue", CATALOGUE), plan.to_json(), default_spreads=defaults) == []
    return plan


def why(plan: Plan) -> list[str]:
    return sorted({str(reason) for one in plan.pending for reason in one.reasons})


def by_zone(lists: Any, **more: Any) -> dict[str, int]:
    plan = checked(lists, **more)
    return {zone[-1]: sum(len(one.pods) for one in plan.nodes if one.zone == zone) for zone in ZONES}
