"""Nodes with pods in a proposal: removed, replaced, or kept with a reason."""

from collections.abc import Sequence

import pytest

from joiner.catalogue import Catalogue
from joiner.disruption import consolidation
from joiner.planning import Snapshot
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import ALL, NOW, ON_DEMAND, cluster, drawn, pool, proposed, reasons
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    CLASSES,
    Json,
    node_pool,
)


def test_a_node_whose_pods_fit_elsewhere_is_removed() -> None:
    proposal = proposed(
        cluster(
            claim_and_node("a", kind="m.xlarge"),
            claim_and_node("b", kind="s.large"),
            pods=[replica("large", "node-a", cpu="3", nodeSelector=ON_DEMAND), replica("web", "node-b")],
        )
    )

    assert drawn(proposal) == ["b -> web:node-a"]
    assert proposal.actions[0].message == "Underutilized: removes 1 node, saves $0.08/h, moves 1 pod"
    assert proposal.actions[0].eviction_cost == 2.0


FREE_TO_EVICT = {"controller.kubernetes.io/pod-deletion-cost": str(-(2**27))}


def free_to_evict(name: str, where: str) -> Json:
    pod = replica(name, where, nodeSelector=ON_DEMAND)
    pod["metadata"]["annotations"] = FREE_TO_EVICT
    return pod


def test_a_node_whose_pods_cost_nothing_to_evict_is_consolidated_like_any_other() -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b", kind="s.large"),
        pods=[replica("large", "node-a", cpu="3", nodeSelector=ON_DEMAND), free_to_evict("web", "node-b")],
    )

    [action] = proposed(lists).actions

    assert (action.reason, action.claims, action.moves) == ("Underutilized", ("b",), {"default/web": "node-a"})
    assert action.eviction_cost == 1.0


def test_a_node_whose_pods_cost_nothing_to_evict_takes_no_budget_while_they_have_no_place() -> None:
    """The sweep never finds such a node empty: its part of the budget would not be used."""
    pods = [free_to_evict(f"free-{number}", "node-free") for number in range(3)]
    for pod in pods:
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1700m"
    full = [replica(f"full-{name}", f"node-{name}", cpu="1", nodeSelector=ON_DEMAND) for name in ("a", "b")]
    nodes = [claim_and_node("free", kind="m.2xlarge"), claim_and_node("a"), claim_and_node("b")]
    annotations = {"joiner.dev/consolidation-least-saving-percent": "40"}

    proposal = proposed(cluster(*nodes, pods=[*pods, *full], nodepools=[pool(annotations, budgets=[{"nodes": "1"}])]))

    assert [one.claims for one in proposal.actions] == [("a",)]
    assert reasons(proposal)["node-free"].startswith("Unconsolidatable: ")


def test_a_node_is_replaced_by_several_smaller_ones_if_no_single_one_is_cheaper() -> None:
    pods = [replica(f"web-{number}", "node-a", cpu="1700m", nodeSelector=ON_DEMAND) for number in range(3)]

    proposal = proposed(cluster(claim_and_node("a", kind="m.2xlarge"), pods=pods))

    [action] = proposal.actions
    assert [(one.instance_type, len(one.pods)) for one in action.replacements] == [("s.large", 1)] * 3
    assert set(action.moves) == {"default/web-0", "default/web-1", "default/web-2"}
    assert set(action.moves.values()) == {one.name for one in action.replacements}
    assert action.saving_per_hour == pytest.approx(0.37 - 3 * 0.08)


def test_the_order_in_which_equal_pods_are_listed_does_not_decide_where_they_go() -> None:
    pods = [replica(f"web-{number}", "node-a", cpu="800m", nodeSelector=ON_DEMAND) for number in range(6)]
    node = claim_and_node("a", kind="m.2xlarge")

    proposals = [proposed(cluster(node, pods=[*pods[start:], *pods[:start]])) for start in range(6)]

    assert len(proposals[0].actions[0].replacements) > 1
    assert proposals == [proposals[0]] * 6


def test_a_node_that_receives_pods_of_a_repacked_group_is_not_repacked_in_the_same_wave() -> None:
    """Twelve nodes are repacked first; the other four have free resources, and pods that cost more to evict."""
    costly = {"controller.kubernetes.io/pod-deletion-cost": str(int(1.2 * 2**27))}
    pods = [
        replica(f"web-{node:02}-{number}", f"node-{node:02}", cpu="1700m", nodeSelector=ON_DEMAND)
        for node in range(16)
        for number in range(4)
    ]
    for pod in pods[12 * 4 :: 4]:
        pod["metadata"]["annotations"] = costly
    small = [replica(f"small-{node:02}", f"node-{node:02}", cpu="100m", nodeSelector=ON_DEMAND) for node in range(12)]
    nodes = [claim_and_node(f"{node:02}", kind="m.2xlarge") for node in range(16)]

    proposal = proposed(cluster(*nodes, pods=[*pods, *small]))

    claims = [claim for action in proposal.actions for claim in action.claims]
    assert claims[:12] == [f"{node:02}" for node in range(12)]
    moves = {pod: place for action in proposal.actions for pod, place in action.moves.items()}
    received = {moves[f"default/small-{node:02}"] for node in range(12)}
    assert received <= {f"node-{node}" for node in range(12, 16)}
    assert not received & {f"node-{claim}" for claim in claims}


def test_nodes_that_cannot_be_repacked_do_not_end_the_search_for_others() -> None:
    """The budget allows one node; that with the most unused price for its evictions has pods that need its type."""
    sizes = {
        "a": ("1300m",),
        "b": ("1700m", "2500m", "1", "1700m", "400m"),
        "c": ("1700m",),
        "d": ("2500m", "400m", "1700m", "2500m"),
    }
    pods = [
        replica(f"{name}-{number}", f"node-{name}", cpu=cpu, nodeSelector=ON_DEMAND)
        for name, every in sizes.items()
        for number, cpu in enumerate(every)
    ]
    for pod in (pods[0], pods[5]):
        pod["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": str(3 * 2**27)}
    kinds = {"a": "s.large", "b": "m.2xlarge", "c": "s.large", "d": "m.2xlarge"}
    nodes = [claim_and_node(name, kind=kind) for name, kind in kinds.items()]

    proposal = proposed(cluster(*nodes, pods=pods, nodepools=[pool(budgets=[{"nodes": "1"}])]))

    [action] = proposal.actions
    assert action.claims == ("b",)
    assert sorted(one.instance_type for one in action.replacements) == ["m.xlarge", "s.large", "s.large"]


def test_pods_may_move_to_a_node_of_a_pool_with_lower_weight_that_another_pod_requires() -> None:
    """The bound is below the price that is left: a pool's weight decides about new nodes only."""

    def only(name: str, kind: str, weight: int) -> Json:
        types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [kind]}
        bought = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
        return node_pool(name, requirements=[types, bought], disruption=ALL, weight=weight)

    proposal = proposed(
        cluster(
            claim_and_node("a", kind="m.2xlarge", pool="light"),
            claim_and_node("b", kind="s.large", pool="heavy"),
            pods=[replica("large", "node-a", cpu="6"), replica("web", "node-b", cpu="1500m")],
            nodepools=[only("heavy", "s.large", weight=10), only("light", "m.2xlarge", weight=1)],
        )
    )

    assert drawn(proposal) == ["b -> web:node-a"]
    assert proposal.lower_bound_per_hour <= 0.37


def test_slots_on_a_node_that_boots_are_not_taken_by_pods_that_may_move() -> None:
    booting = claim_and_node("c", initialized=False)
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b", kind="s.large"),
        booting,
        pods=[replica("large", "node-a", cpu="3", nodeSelector=ON_DEMAND), replica("web", "node-b")],
    )
    kind = next(pod.class_key for pod in Snapshot.from_lists(lists).pods if pod.name == "web")
    snapshot = Snapshot.from_lists(lists, assignments={"c": {kind: 3}})
    proposal = consolidation.propose(snapshot, Catalogue.from_json(CATALOGUE), classes=CLASSES, now=NOW)

    assert drawn(proposal) == ["b -> web:node-a"]


def test_a_node_that_is_too_large_is_replaced_by_a_cheaper_one_pinned_to_spot() -> None:
    proposal = proposed(cluster(claim_and_node("a", kind="m.xlarge"), pods=[replica("web", "node-a")]))

    assert drawn(proposal) == ["a -> s.large/spot web:default-1"]
    replacement = proposal.actions[0].replacements[0]
    assert {offer.capacity_type for offer in replacement.alternatives} == {"spot"}
    assert replacement.pods == ("default/web",)
    assert {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]} in (
        replacement.requirements.to_kube()
    )


def test_spot_is_not_replaced_by_spot_unless_the_pool_allows_it() -> None:
    node = claim_and_node("a", kind="m.xlarge", capacity_type="spot")
    by_default = proposed(cluster(node, pods=[replica("web", "node-a")]))
    few = {"joiner.dev/spot-to-spot-consolidation": "true"}
    with_few_types = proposed(cluster(node, pods=[replica("web", "node-a")], nodepools=[pool(few)]))
    enough = {**few, "joiner.dev/spot-to-spot-least-types": "1"}
    allowed = proposed(cluster(node, pods=[replica("web", "node-a")], nodepools=[pool(enough)]))

    assert drawn(by_default) == []
    assert reasons(by_default) == {
        "node-a": "Unconsolidatable: its pods do not fit on other nodes, and the replacement of spot nodes is disabled "
        "(joiner.dev/spot-to-spot-consolidation of NodePool/default)"
    }
    assert drawn(with_few_types) == []
    assert reasons(with_few_types) == {
        "node-a": "Unconsolidatable: 1 spot types are cheaper, and 15 are required "
        "(joiner.dev/spot-to-spot-least-types)"
    }
    assert drawn(allowed) == ["a -> s.large/spot web:default-1"]


def test_an_on_demand_node_of_a_pool_with_a_capacity_mix_is_removed_but_not_replaced() -> None:
    mixed = [pool({"joiner.dev/capacity-mix": "spot=70%"})]
    alone = proposed(cluster(claim_and_node("a", kind="m.xlarge"), pods=[replica("web", "node-a")], nodepools=mixed))
    two = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b", kind="s.large"),
        pods=[replica("large", "node-a", cpu="3", nodeSelector=ON_DEMAND), replica("web", "node-b")],
        nodepools=mixed,
    )

    assert drawn(alone) == []
    assert drawn(proposed(two)) == ["b -> web:node-a"]


def overlay(name: str, kinds: Sequence[str], price: str) -> Json:
    types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(kinds)}
    return {"metadata": {"name": name}, "spec": {"requirements": [types], "price": price}}


def test_a_running_node_has_the_price_of_the_overlays_that_plans_use() -> None:
    """The overlay `a` loses its conflict with `b`, so a new node of the same type would not have its price."""
    contradicting = [overlay("a", ["s.large", "m.xlarge"], "50"), overlay("b", ["m.xlarge"], "60")]
    proposal = proposed(
        cluster(
            claim_and_node("a", kind="s.large"),
            pods=[replica("web", "node-a", cpu="1500m", nodeSelector=ON_DEMAND)],
            nodeoverlays=contradicting,
        )
    )

    assert drawn(proposal) == []


def test_a_provisioner_with_consolidation_enabled_consolidates() -> None:
    def legacy(name: str, kind: str) -> tuple[Json, Json]:
        claim, node = claim_and_node(name, kind=kind)
        labels = {key: value for key, value in claim["metadata"]["labels"].items() if key != "karpenter.sh/nodepool"}
        labels["karpenter.sh/provisioner-name"] = "default"
        conditions = [
            {**one, "type": f"Machine{one['type']}" if one["type"] != "Ready" else "Ready"}
            for one in claim["status"]["conditions"]
        ]
        machine = {
            **claim,
            "apiVersion": "karpenter.sh/v1alpha5",
            "kind": "Machine",
            "metadata": {**claim["metadata"], "labels": labels},
            "spec": {},
            "status": {**claim["status"], "conditions": conditions},
        }
        return machine, {**node, "metadata": {**node["metadata"], "labels": {**node["metadata"]["labels"], **labels}}}

    machines = [legacy("a", "m.xlarge"), legacy("b", "s.large")]
    provisioner = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "default", "uid": "uid"},
        "spec": {"consolidation": {"enabled": True}, "providerRef": {"name": "default"}},
    }
    lists: dict[str, Sequence[Json]] = {
        "provisioners": [provisioner],
        "machines": [machine for machine, _ in machines],
        "nodes": [node for _, node in machines],
        "pods": [replica("large", "node-a", cpu="3"), replica("web", "node-b")],
    }

    assert drawn(proposed(lists)) == ["b -> web:node-a"]


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ({}, "it belongs to no pool: its claim has no label karpenter.sh/nodepool"),
        ({"karpenter.sh/nodepool": "gone"}, "its pool NodePool/gone does not exist, or is not valid"),
    ],
    ids=["no pool", "a missing pool"],
)
def test_a_node_without_a_pool_stays_with_the_reason(label: dict[str, str], reason: str) -> None:
    claim, node = claim_and_node("mine")
    for one in (claim, node):
        del one["metadata"]["labels"]["karpenter.sh/nodepool"]
        one["metadata"]["labels"] |= label

    assert reasons(proposed(cluster((claim, node)))) == {"node-mine": f"DisruptionBlocked: {reason}"}


def test_the_places_of_pods_on_nodes_that_are_marked_already_stay_theirs() -> None:
    """Another disruption waits for its replacements: the pods of node-c move to node-a, and those of node-b may not."""
    there = [claim_and_node("a", kind="m.xlarge"), claim_and_node("b", kind="s.large"), claim_and_node("c")]
    large = replica("large", "node-a", cpu="2", nodeSelector=ON_DEMAND)
    pods = [large, replica("web", "node-b", cpu="1", nodeSelector=ON_DEMAND)]
    moving = replica("moving", "node-c", cpu="1", nodeSelector=ON_DEMAND)
    free = proposed(cluster(*there[:2], pods=pods))
    there[2][1]["spec"]["taints"] = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    taken = proposed(cluster(*there, pods=[*pods, moving]))

    assert drawn(free) == ["b -> web:node-a"]
    assert drawn(taken) == []
