"""A proposal becomes a plan although pods conflict with their neighbours: pods are moved, and an attempt that fails
changes nothing.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from joiner.catalogue import Catalogue
from joiner.planning import Ceilings, Snapshot
from joiner.planning.packing.node_filling import NodePattern, Packing
from joiner.planning.placement.realize_packing import PackingRealizer, expressible_groups
from joiner.planning.relaxation.packing_problem import PackingProblem, compile_problem
from joiner.planning.state.domain_assignment import assign_domains
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.plan_state_construction import build_state
from tests.unit.planning.drawn_clusters import (
    CLASSES,
    HOST,
    ZONES,
    Json,
    affinity,
    instance_type,
    near,
    node_pool,
    pod,
    spread,
)

ONE_OFFER = instance_type("m.xlarge", 4, 16, 0.19, zones=ZONES[:1])
CATALOGUE = Catalogue.from_json({"m.xlarge": {**ONE_OFFER, "offerings": ONE_OFFER["offerings"][:1]}})


def waiting(app: str, cpu: str, *, shuns: Sequence[str] = (), **fields: Any) -> Json:
    """Return a pod that shares no node with pods of these apps."""
    apart = affinity(podAntiAffinity=[near(HOST, other) for other in shuns]) if shuns else {}
    return pod(f"{app}-0", app=app, cpu=cpu, **apart, **fields)


def carried_out(pods: Sequence[Json], *nodes: Sequence[str]) -> PlanState:
    """Apply a proposal: one node for each entry, with the apps whose pods belong there, in the order in which the pods
    are placed.
    """
    snapshot = Snapshot.from_lists({"pods": pods, "nodepools": [node_pool()]})
    state = build_state(snapshot, CATALOGUE, frozenset(), classes=CLASSES, ceilings=Ceilings())
    groups = list(state.groups.pending)
    deal = assign_domains(state, groups, dict.fromkeys(groups, 1.0))
    problem = compile_problem(state, deal, expressible_groups(state, groups, deal))
    patterns = [
        NodePattern(0, items := np.array([item_of(problem, app) for app in apps]), np.ones_like(items), 1)
        for apps in nodes
    ]
    PackingRealizer(state, problem, deal).realize(Packing(len(nodes) * float(problem.price[0]), tuple(patterns)))
    return state


def item_of(problem: PackingProblem, app: str) -> int:
    return next(
        item for item, members in enumerate(problem.members) if any(group.labels["app"] == app for group, _ in members)
    )


def apps_by_node(state: PlanState) -> list[list[str]]:
    """Return the pods on each new node."""
    return [sorted(group.labels["app"] for group in node.planned) for node in state.new]


def amounts(state: PlanState) -> object:
    """Return all counters: free capacity, pods left, what topology domains can still take, and what rules count."""
    counts = [
        [{domain: number for domain, number in one.by_domain.items() if number} for one in own.feeds]
        for own in state.rules
    ]
    return [node.free for node in state.new], list(state.left.values()), state.quotas, counts


STEADY = waiting("steady", "1", topologySpreadConstraints=[spread(app="steady")])
NOISY = waiting("noisy", "1", topologySpreadConstraints=[spread(app="noisy"), spread(HOST, app="noisy")])
"""Equal in size. Their zones are assigned, so quotas apply. The planner places pods with a host spread first."""
SHY = waiting("shy", "2500m", shuns=["noisy"])


def test_a_neighbour_makes_way_for_a_pod_that_clashes_with_it() -> None:
    state = carried_out([NOISY, STEADY, SHY, waiting("large", "2600m")], ["noisy", "shy"], ["steady", "large"])

    assert apps_by_node(state) == [["shy", "steady"], ["large", "noisy"]]
    assert not state.pods_left


def test_where_no_neighbour_can_make_way_nothing_has_changed() -> None:
    pods = [NOISY, STEADY, SHY, waiting("large", "2600m", shuns=["noisy"])]
    tried, untried = (
        carried_out(pods, ["noisy", "shy"], ["steady", "large"]),
        carried_out(pods, ["noisy"], ["steady", "large"]),
    )

    assert apps_by_node(tried) == [["noisy"], ["large", "steady"]]
    assert amounts(tried) == amounts(untried)


def test_what_a_pod_asks_of_its_neighbours_goes_with_it_when_it_finds_no_place() -> None:
    """The pod `shy` accepts at most one pod `loud` on its node. `shy` finds no node in the end, so a second `loud` pod
    may come.
    """
    loud = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["noisy", "small"]}]}
    shy = {**SHY, "spec": {**SHY["spec"], "topologySpreadConstraints": [{**spread(HOST), "labelSelector": loud}]}}
    pods = [NOISY, STEADY, shy, waiting("large", "2", shuns=["noisy", "small"]), waiting("small", "500m")]
    state = carried_out(pods, ["noisy", "shy"], ["steady", "large", "small"])

    assert apps_by_node(state) == [["noisy", "small"], ["large", "steady"]]
