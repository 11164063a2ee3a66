"""Laws of plans while drains are blocked: each pod counts where it runs, and its replacement gets a place, too."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.planning.blocked_drains import draining_node, on_draining_node
from tests.unit.planning.drawn_clusters import CATALOGUE, ZONES, clusters, planned


@st.composite
def blocked_drains(draw: st.DrawFn) -> tuple[dict[str, Any], set[str]]:
    """Draw a cluster in which some of the replicas run on a node with a blocked drain; return it with the names of
    these pods."""
    lists = draw(clusters())
    waiting = [one for one in lists["pods"] if "nodeName" not in one["spec"]]
    there = draw(st.lists(st.sampled_from(range(len(waiting))), min_size=1, max_size=6, unique=True))
    moving = {f"default/{waiting[number]['metadata']['name']}" for number in there}
    pods = [on_draining_node(one) if f"default/{one['metadata']['name']}" in moving else one for one in lists["pods"]]
    node, claim = draining_node(zone=draw(st.sampled_from(ZONES)))
    return {**lists, "pods": pods, "nodes": [*lists["nodes"], node], "nodeclaims": [claim]}, moving


@examples(200, repeated=60)
@given(blocked_drains())
def test_plans_beside_blocked_drains_keep_the_rules_and_place_the_pods_that_wait_first(
    drawn: tuple[dict[str, Any], set[str]],
) -> None:
    lists, moving = drawn
    plan = planned(lists)
    protected = [
        on_draining_node(one, annotations={"karpenter.sh/do-not-disrupt": "true"})
        if one["spec"].get("nodeName") == "going"
        else one
        for one in lists["pods"]
    ]
    without = planned({**lists, "pods": protected})
    waiting = {one.pod for one in plan.pending} - moving

    assert check_plan(lists, CATALOGUE, plan.to_json()) == []
    assert len(waiting) <= len(without.pending)
