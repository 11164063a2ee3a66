"""Nodes that were packed anew together, but need nothing of one another, are disrupted independently."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.disruption.cluster_simulation import ClusterSimulation, PlannerArguments
from joiner.disruption.consolidation_worth import PoolTotals, worthless
from joiner.disruption.disruption_candidates import find_candidates, total_by_pool
from joiner.disruption.disruption_history import NO_HISTORY
from joiner.disruption.found_actions import FoundAction
from joiner.disruption.independent_actions import ActionDivision
from joiner.disruption.replacement_rules import repeated_types
from joiner.disruption.wave_search import REPACK_EFFORT
from joiner.planning import Snapshot
from joiner.planning.plan_policies import NO_CEILINGS
from tests.law_settings import examples
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import NOW, cluster, drawn, pool, proposed
from tests.unit.disruption.test_consolidation_laws import Lists, fragmented_clusters
from tests.unit.disruption.test_repacked_replacements import not_on
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, ZONE, Json, affinity, near

POOL = "karpenter.sh/nodepool"
POOLS = [pool(name="left"), pool(name="right")]
ANY_TYPE = {"joiner.dev/spot-to-spot-consolidation": "true", "joiner.dev/spot-to-spot-least-types": "1"}
FIFTEEN_TYPES = {"joiner.dev/spot-to-spot-consolidation": "true"}


def pod(name: str, node: str, of: str, cpu: str, *, capacity_type: str = "on-demand", **fields: object) -> Json:
    """Return a pod that runs on nodes of one pool only."""
    selector = {POOL: of, "karpenter.sh/capacity-type": capacity_type}
    return replica(name, f"node-{node}", cpu=cpu, nodeSelector=selector, **fields)


def three_for_one(of: str) -> tuple[list[tuple[Json, Json]], list[Json]]:
    """Return three nodes of a pool, of which one larger and cheaper node can hold the pods."""
    sizes = {f"{of}-a": "1500m", f"{of}-b": "1500m", f"{of}-c": "900m"}
    return [claim_and_node(name, pool=of) for name in sizes], [pod(name, name, of, cpu) for name, cpu in sizes.items()]


@dataclass(frozen=True)
class Divided:
    """An action that removes some nodes and packs their pods anew, and what it is divided into."""

    action: FoundAction
    parts: Sequence[FoundAction]
    totals: PoolTotals
    homes: Mapping[str, Sequence[str]]
    pods: Mapping[str, Sequence[str]]

    def drawn(self) -> list[str]:
        """Return each part as one line: what is removed and launched."""
        return sorted(
            " ".join(
                (
                    "+".join(sorted(one.claim.name for one in part.removed)),
                    "->",
                    *sorted(node.choice.one.offer.instance_type for node in part.opened if node.choice),
                )
            )
            for part in self.parts
        )


def divided(lists: Mapping[str, Sequence[Json]], removed: Collection[str]) -> Divided | None:
    """Return what the removal of these claims is divided into; None if their pods have no place."""
    snapshot = Snapshot.from_lists(lists)
    world = PlannerArguments(Catalogue.from_json(CATALOGUE), frozenset(), CLASSES, NO_CEILINGS)
    prices = world.prices(snapshot)
    found = find_candidates(snapshot, prices, now=NOW, history=NO_HISTORY)
    simulation = ClusterSimulation(snapshot, found, world)
    chosen = tuple(one for one in found.candidates if one.claim.name in removed)
    homes = {one.node.name: simulation.pods_on(one.node.name) for one in chosen}
    left = simulation.place_on_existing(simulation.evict(list(homes)))
    if left and not simulation.pack_on_new(left, REPACK_EFFORT, without=()):
        return None
    opened = tuple(simulation.commit())
    saving = sum(one.price for one in chosen) - sum(node.price for node in opened)
    action = FoundAction(chosen, opened, saving, None)
    totals = PoolTotals(*total_by_pool(snapshot, prices))
    parts = ActionDivision(simulation, totals, homes, simulation.place_of()).divide(action)
    return Divided(action, parts, totals, homes, {node.name: simulation.pods_of(node) for node in opened})


def drawn_parts(lists: Mapping[str, Sequence[Json]], removed: Collection[str]) -> list[str]:
    made = divided(lists, removed)
    assert made is not None
    return made.drawn()


def test_two_pools_side_by_side_get_an_action_each() -> None:
    (left, left_pods), (right, right_pods) = three_for_one("left"), three_for_one("right")

    proposal = proposed(cluster(*left, *right, pods=[*left_pods, *right_pods], nodepools=POOLS))

    assert drawn(proposal) == [
        f"{of}-a+{of}-b+{of}-c -> m.xlarge/on-demand {of}-a:{of}-1 {of}-b:{of}-1 {of}-c:{of}-1"
        for of in ("left", "right")
    ]
    assert [one.saving_per_hour for one in proposal.actions] == [pytest.approx(3 * 0.08 - 0.19)] * 2


def test_nodes_that_the_same_type_would_replace_stay_with_a_partner() -> None:
    """In the pool `right`, two s.large replace one, and a larger node. Beside the others, fewer nodes of the type are
    launched than removed."""
    nodes, pods = three_for_one("left")
    nodes += [claim_and_node("m", kind="m.xlarge", pool="right"), claim_and_node("s", pool="right")]
    pods += [pod("m0", "m", "right", "1"), pod("m1", "m", "right", "1"), pod("s", "s", "right", "700m")]

    names = ["left-a", "left-b", "left-c", "m", "s"]
    assert drawn_parts(cluster(*nodes, pods=pods, nodepools=POOLS), names) == [
        "left-a+left-b+left-c+m+s -> m.xlarge s.large s.large"
    ]


def test_a_part_that_costs_more_is_joined_with_the_part_that_makes_up_for_it() -> None:
    """The pod of `r` needs a more expensive node. The pool `left` saves less than that, the node `m` more."""
    nodes, pods = three_for_one("left")
    costly = pod("r", "r", "right", "1", affinity=not_on("s.large"))
    lists = cluster(
        *nodes,
        claim_and_node("m", kind="m.2xlarge"),
        claim_and_node("r", pool="right"),
        pods=[*pods, pod("m", "m", "default", "3"), costly],
        nodepools=[*POOLS, pool()],
    )

    names = ["left-a", "left-b", "left-c", "m", "r"]
    assert drawn_parts(lists, names) == ["left-a+left-b+left-c -> m.xlarge", "m+r -> m.xlarge m.xlarge"]


def test_a_part_that_saves_too_little_is_joined_with_the_smallest_that_suffices() -> None:
    """The node `r` saves 16 %. With the node `m` it saves 37 %, with `w` 43 %, for which more nodes are launched."""
    least = pool({"joiner.dev/consolidation-least-saving-percent": "18"}, name="right")
    pods = [pod("m", "m", "default", "1"), *(pod(name, "w", "left", "1500m") for name in ("w0", "w1"))]
    lists = cluster(
        claim_and_node("m", kind="m.xlarge"),
        claim_and_node("w", kind="m.2xlarge", pool="left"),
        claim_and_node("r", kind="m.xlarge", pool="right"),
        pods=[*pods, *(pod(name, "r", "right", "1500m") for name in ("r0", "r1"))],
        nodepools=[pool(name="left"), pool(), least],
    )

    assert drawn_parts(lists, "mrw") == ["m+r -> s.large s.large s.large", "w -> s.large s.large"]


def test_a_node_whose_pods_fit_on_existing_nodes_is_deleted_on_its_own() -> None:
    nodes, pods = three_for_one("left")
    lists = cluster(
        *nodes,
        claim_and_node("right", pool="right"),
        claim_and_node("large", kind="m.2xlarge", pool="right"),
        pods=[*pods, pod("r", "right", "right", "1"), pod("l", "large", "right", "5")],
        nodepools=POOLS,
    )

    names = ["left-a", "left-b", "left-c", "right"]
    assert drawn_parts(lists, names) == ["left-a+left-b+left-c -> m.xlarge", "right ->"]


@pytest.mark.parametrize(
    ("annotations", "parts"),
    [(ANY_TYPE, ["a -> s.large", "b -> s.large"]), (FIFTEEN_TYPES, ["a+b -> s.large s.large"])],
)
def test_a_spot_node_is_replaced_on_its_own_only_if_the_fleet_has_a_choice(
    annotations: Mapping[str, str], parts: list[str]
) -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge", capacity_type="spot", pool="left"),
        claim_and_node("b", kind="m.xlarge", capacity_type="spot", pool="right"),
        pods=[pod(name, name, of, "1", capacity_type="spot") for name, of in (("a", "left"), ("b", "right"))],
        nodepools=[pool(annotations, name="left"), pool(annotations, name="right")],
    )

    assert drawn_parts(lists, "ab") == parts


@pytest.mark.parametrize(
    ("rules", "parts"),
    [
        ({}, ["a -> s.large", "b -> s.large"]),
        (affinity(podAffinity=[near(ZONE, "web")]), ["a+b -> s.large s.large"]),
    ],
)
def test_nodes_of_pods_that_must_share_a_zone_stay_together(rules: Json, parts: list[str]) -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge", pool="left"),
        claim_and_node("b", kind="m.xlarge", pool="right"),
        pods=[pod("web", "a", "left", "1", app="web"), pod("api", "b", "right", "1", app="api", **rules)],
        nodepools=POOLS,
    )

    assert drawn_parts(lists, "ab") == parts


def test_a_node_that_the_policy_balanced_would_keep_stays_with_a_partner() -> None:
    """The node `b` saves a fifth of its pool's price for 11 of 25 shares of its eviction cost."""
    pods = [pod("a", "a", "default", "1", app="a")]
    pods += [
        pod(f"b{number}", "b", "right", "100m", memory="100Mi", affinity=not_on("m.2xlarge")) for number in range(10)
    ]
    pods += [pod(f"c{number}", "c", "right", "100m", app="c") for number in range(13)]
    nodes = [claim_and_node("a", kind="m.2xlarge"), claim_and_node("b", kind="m.xlarge", pool="right")]
    nodes.append(claim_and_node("c", kind="m.2xlarge", pool="right"))
    parts = {
        policy: drawn_parts(
            cluster(*nodes, pods=pods, nodepools=[pool(), pool(name="right", consolidationPolicy=policy)]), "ab"
        )
        for policy in ("WhenEmptyOrUnderutilized", "Balanced")
    }

    assert parts == {
        "WhenEmptyOrUnderutilized": ["a -> s.large", "b -> s.large"],
        "Balanced": ["a+b -> s.large s.large"],
    }


@examples(60, repeated=20)
@given(fragmented_clusters(), st.integers(0, 2**16 - 1))
def test_parts_are_allowed_and_together_do_what_the_action_does(lists: Lists, chosen: int) -> None:
    names = [one["metadata"]["name"] for one in lists.get("nodeclaims", ())]
    made = divided(lists, [name for number, name in enumerate(names) if not chosen >> number % 16 & 1])
    assume(made is not None and len(made.action.removed) > 1)
    assert made is not None
    parts, action = made.parts, made.action

    assert sorted(one.claim.name for part in parts for one in part.removed) == sorted(
        one.claim.name for one in action.removed
    )
    assert sorted(node.name for part in parts for node in part.opened) == sorted(node.name for node in action.opened)
    assert sum(part.saving for part in parts) == pytest.approx(action.saving)
    for part in parts if len(parts) > 1 else ():
        own = {key for one in part.removed for key in made.homes[one.node.name]}
        assert worthless(part.removed, part.saving, made.totals) == ""
        assert not repeated_types(part.removed, [node.choice.one.offer for node in part.opened if node.choice])
        assert {key for node in part.opened for key in made.pods[node.name]} <= own
