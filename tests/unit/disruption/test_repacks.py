"""Nodes whose pods are packed anew: fewer nodes of a type, small nodes for a spot node, groups in small clusters."""

from collections.abc import Sequence

import pytest

from joiner.disruption.disruption_candidates import Candidate
from joiner.disruption.proposal import Proposal
from joiner.disruption.repack_groups import MOST_NODES, RepackableNode, groups_of_few_nodes
from joiner.planning import Snapshot
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import ON_DEMAND, cluster, drawn, pool, proposed, reasons
from tests.unit.planning.drawn_clusters import Json

ONE_TYPE = {"joiner.dev/spot-to-spot-consolidation": "true", "joiner.dev/spot-to-spot-least-types": "1"}
TWO_TYPES = {**ONE_TYPE, "joiner.dev/spot-to-spot-least-types": "2"}
COSTLY = {"controller.kubernetes.io/pod-deletion-cost": str(9 * 2**27)}


def pods_of(node: str, *sizes: str) -> list[Json]:
    return [
        replica(f"{node}{number}", f"node-{node}", cpu=cpu, nodeSelector=ON_DEMAND) for number, cpu in enumerate(sizes)
    ]


def test_fewer_nodes_of_a_type_replace_nodes_of_this_type() -> None:
    """No node can be deleted, because none of the others has free capacity for all of its pods. Together they need
    exactly three nodes."""
    pods = [*pods_of("a", "640m", "800m"), *pods_of("b", "640m", "800m"), *pods_of("c", "640m", "1120m")]

    proposal = proposed(cluster(*(claim_and_node(name) for name in "abcd"), pods=[*pods, *pods_of("d", "1120m")]))

    [action] = proposal.actions
    assert action.claims == ("a", "b", "c", "d")
    assert [one.instance_type for one in action.replacements] == ["s.large"] * 3
    assert action.saving_per_hour == pytest.approx(0.08)


def test_as_many_nodes_of_a_type_as_before_replace_nothing() -> None:
    pods = [*pods_of("a", "640m", "800m"), *pods_of("b", "640m", "800m"), *pods_of("c", "640m", "1120m")]

    assert drawn(proposed(cluster(*(claim_and_node(name) for name in "abc"), pods=pods))) == []


def test_a_spot_node_is_replaced_by_several_only_if_each_has_a_choice_of_cheaper_types() -> None:
    node = claim_and_node("a", kind="m.2xlarge", capacity_type="spot")
    pods = [replica(f"web-{number}", "node-a", cpu="1700m") for number in range(3)]

    allowed = proposed(cluster(node, pods=pods, nodepools=[pool(ONE_TYPE)]))

    [action] = allowed.actions
    launched = [(one.instance_type, one.capacity_type) for one in action.replacements]
    assert launched == [("s.large", "spot")] * 3
    assert {offer.instance_type for one in action.replacements for offer in one.alternatives} == {"s.large"}
    assert drawn(proposed(cluster(node, pods=pods, nodepools=[pool(TWO_TYPES)]))) == []
    assert drawn(proposed(cluster(node, pods=pods))) == []


def test_a_few_nodes_are_repacked_together_wherever_they_are_in_the_order_of_unused_price() -> None:
    """The pod of `e` is the most expensive one to evict. Only with two of the others does it fill a larger node."""
    pods = [pod for name in "abcd" for pod in pods_of(name, "1500m")] + pods_of("e", "900m")
    pods[-1]["metadata"]["annotations"] = COSTLY
    nodes = [claim_and_node(name) for name in "abcde"]

    proposal = proposed(cluster(*nodes, pods=pods, nodepools=[pool(budgets=[{"nodes": "3"}])]))

    assert drawn(proposal) == ["a+b+e -> m.xlarge/on-demand a0:default-1 b0:default-1 e0:default-1"]
    assert proposal.actions[0].saving_per_hour == pytest.approx(3 * 0.08 - 0.19)


def four_for_three(full: int, *, costly: bool) -> Proposal:
    """Return the proposal for four nodes whose pods fill three, beside so many full nodes. The price is above its
    lower bound by one node in three and the full ones."""
    pods = [*pods_of("a", "640m", "800m"), *pods_of("b", "640m", "800m"), *pods_of("c", "640m", "1120m")]
    for number in (0, 2, 4) if costly else ():
        pods[number]["metadata"]["annotations"] = COSTLY
    pods += pods_of("d", "1120m")
    others = [f"f{number:02}" for number in range(full)]
    pods += [pod for name in others for pod in pods_of(name, "960m", "960m")]
    return proposed(cluster(*(claim_and_node(name) for name in ("a", "b", "c", "d", *others)), pods=pods))


def test_near_the_bound_a_repack_by_several_nodes_must_be_worth_its_evictions() -> None:
    """Beside twelve full nodes, a sixteenth of the price is saved: for a fifth of the eviction cost, or for half."""
    [action] = four_for_three(12, costly=False).actions
    refused = four_for_three(12, costly=True)

    assert action.claims == ("a", "b", "c", "d")
    assert action.saving_per_hour == pytest.approx(0.08)
    assert refused.actions == ()
    assert reasons(refused)["node-d"] == (
        "Unconsolidatable: its pods do not fit on other nodes, and no cheaper node holds them; packed anew with 3 "
        "other nodes, it would save $0.08/h for an eviction cost of 38: too little so near the lower bound"
    )


def test_a_refused_repack_is_told_apart_from_what_a_node_would_save_alone() -> None:
    limited = pool({"joiner.dev/consolidation-least-saving-percent": "90"})
    pods = [*pods_of("a", "640m", "800m"), *pods_of("b", "640m", "800m"), *pods_of("c", "640m", "1120m")]
    four = cluster(
        *(claim_and_node(name) for name in "abcd"), pods=[*pods, *pods_of("d", "1120m")], nodepools=[limited]
    )
    one = cluster(claim_and_node("a", kind="m.xlarge"), pods=pods_of("a", "640m"), nodepools=[limited])
    least = "less than the 90 % (joiner.dev/consolidation-least-saving-percent) of NodePool/default"
    no_place = "Unconsolidatable: its pods do not fit on other nodes, and no cheaper node holds them"

    assert set(reasons(proposed(four)).values()) == {
        f"{no_place}; packed anew with 3 other nodes, it would save 25.0 %, {least}",
        f"{no_place}; packed anew with 2 other nodes, it would save 33.3 %, {least}",
    }
    assert reasons(proposed(one)) == {"node-a": f"Unconsolidatable: it would save 57.9 %, {least}"}


def test_far_from_the_bound_a_repack_may_cost_more_evictions() -> None:
    [action] = four_for_three(8, costly=True).actions

    assert action.claims == ("a", "b", "c", "d")


def repackable(names: Sequence[str], kinds: Sequence[str], worth: float) -> list[RepackableNode]:
    lists = cluster(*(claim_and_node(name) for name in names))
    snapshot = Snapshot.from_lists(lists)
    [of] = snapshot.pools
    return [
        RepackableNode(Candidate(claim, node, of, 0.08, (), 2.0), kind, worth)
        for claim, node, kind in zip(snapshot.claims, snapshot.nodes, kinds, strict=True)
    ]


def test_nodes_that_are_alike_are_chosen_once() -> None:
    found = groups_of_few_nodes(repackable("abc", ("x", "x", "y"), worth=0.04), 0.05)

    assert ["".join(one.claim.name for one in group.nodes) for group in found] == ["a", "ab", "abc", "ac", "c"]


def test_groups_without_unused_price_and_many_nodes_are_not_tried() -> None:
    names = [f"n{number:02}" for number in range(MOST_NODES + 1)]

    assert list(groups_of_few_nodes(repackable("ab", "xy", worth=0.078), 0.05)) == []
    assert list(groups_of_few_nodes(repackable(names[1:], ["x"] * MOST_NODES, worth=0.04), 0.05)) != []
    assert list(groups_of_few_nodes(repackable(names, ["x"] * (MOST_NODES + 1), worth=0.04), 0.05)) == []
