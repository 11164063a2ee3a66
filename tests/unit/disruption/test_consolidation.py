"""Nodes with pods in a proposal: removed, replaced, or kept with a reason."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.catalogue.commitments import Commitment
from joiner.catalogue.total_node_prices import NodePrices
from joiner.disruption import consolidation
from joiner.disruption.consolidation_worth import PoolTotals, worthless
from joiner.disruption.disruption_candidates import Candidate, find_candidates
from joiner.disruption.disruption_history import DisruptionHistory
from joiner.disruption.proposal import Proposal
from joiner.planning import Snapshot
from joiner.pools import NodePool
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    CLASSES,
    HOST,
    ZONE,
    ZONES,
    Json,
    affinity,
    near,
    node_pool,
    spread,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ALL = {"budgets": [{"nodes": "100%"}]}


def pool(annotations: Mapping[str, str] | None = None, *, name: str = "default", **disruption: Any) -> Json:
    made = node_pool(
        name,
        requirements=[
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        ],
        disruption={**ALL, **disruption},
    )
    return {**made, "metadata": {**made["metadata"], "annotations": dict(annotations or {})}}


ON_DEMAND = {"karpenter.sh/capacity-type": "on-demand"}


def cluster(*nodes: tuple[Json, Json], pods: Sequence[Json] = (), **more: Any) -> dict[str, Sequence[Json]]:
    return {
        "nodepools": [pool()],
        "nodeclaims": [claim for claim, _ in nodes],
        "nodes": [node for _, node in nodes],
        "pods": pods,
        **more,
    }


def proposed(lists: Mapping[str, Sequence[Json]], history: DisruptionHistory | None = None) -> Proposal:
    return consolidation.propose(
        Snapshot.from_lists(lists),
        Catalogue.from_json(CATALOGUE),
        classes=CLASSES,
        now=NOW,
        history=history or DisruptionHistory(),
    )


def drawn(proposal: Proposal) -> list[str]:
    """Return each action as one line: claims, what is launched, where each pod goes."""
    return [
        " ".join(
            (
                "+".join(action.claims),
                "->",
                *(f"{one.instance_type}/{one.capacity_type}" for one in action.replacements),
                *(f"{pod[8:]}:{place}" for pod, place in sorted(action.moves.items())),
            )
        )
        for action in proposal.actions
    ]


def reasons(proposal: Proposal) -> dict[str, str]:
    return {one.node: f"{one.condition}: {one.message}" for one in proposal.kept}


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


def test_a_node_is_replaced_by_several_smaller_ones_if_no_single_one_is_cheaper() -> None:
    pods = [replica(f"web-{number}", "node-a", cpu="1700m", nodeSelector=ON_DEMAND) for number in range(3)]

    proposal = proposed(cluster(claim_and_node("a", kind="m.2xlarge"), pods=pods))

    [action] = proposal.actions
    assert [(one.instance_type, len(one.pods)) for one in action.replacements] == [("s.large", 1)] * 3
    assert set(action.moves) == {"default/web-0", "default/web-1", "default/web-2"}
    assert set(action.moves.values()) == {one.name for one in action.replacements}
    assert action.saving_per_hour == pytest.approx(0.37 - 3 * 0.08)


def test_a_node_that_receives_pods_of_a_repacked_group_is_not_repacked_in_the_same_wave() -> None:
    """Sixteen nodes are repacked first; the other four have free resources, and pods that cost more to evict."""
    costly = {"controller.kubernetes.io/pod-deletion-cost": str(int(1.2 * 2**27))}
    pods = [
        replica(f"web-{node:02}-{number}", f"node-{node:02}", cpu="1700m", nodeSelector=ON_DEMAND)
        for node in range(20)
        for number in range(4)
    ]
    for pod in pods[16 * 4 :: 4]:
        pod["metadata"]["annotations"] = costly
    small = [replica(f"small-{node:02}", f"node-{node:02}", cpu="100m", nodeSelector=ON_DEMAND) for node in range(16)]
    nodes = [claim_and_node(f"{node:02}", kind="m.2xlarge") for node in range(20)]

    proposal = proposed(cluster(*nodes, pods=[*pods, *small]))

    first = proposal.actions[0]
    assert first.claims == tuple(f"{node:02}" for node in range(16))
    received = {first.moves[f"default/small-{node:02}"] for node in range(16)}
    assert received <= {f"node-{node}" for node in range(16, 20)}
    assert not received & {f"node-{claim}" for action in proposal.actions for claim in action.claims}


def test_nothing_is_moved_near_the_lower_bound() -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b", kind="s.large"),
        pods=[replica("large", "node-a", cpu="3", nodeSelector=ON_DEMAND), replica("web", "node-b")],
    )

    def with_gap(gap: float) -> Proposal:
        return consolidation.propose(
            Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=CLASSES, now=NOW, gap=gap
        )

    distance = with_gap(0.0).price_per_hour / with_gap(0.0).lower_bound_per_hour - 1
    assert drawn(with_gap(distance - 0.01)) == ["b -> web:node-a"]
    assert drawn(with_gap(distance + 0.01)) == []


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


def test_the_same_type_does_not_replace_itself() -> None:
    proposal = proposed(
        cluster(
            claim_and_node("a", kind="s.large"), pods=[replica("web", "node-a", cpu="1500m", nodeSelector=ON_DEMAND)]
        )
    )

    assert drawn(proposal) == []


@pytest.mark.parametrize(
    ("annotation", "value", "reason"),
    [
        ("joiner.dev/consolidation-least-saving-per-hour", "0.1", "less than the $0.1/h"),
        ("joiner.dev/consolidation-evictions-per-day", "0", "NodePool/default allows 0 evictions a day"),
        ("joiner.dev/consolidation-least-saving-per-hour", "much", "an annotation of NodePool/default is not valid"),
    ],
)
def test_annotations_of_the_pool_keep_nodes(annotation: str, value: str, reason: str) -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b", kind="s.large"),
        pods=[replica("large", "node-a", cpu="3", nodeSelector=ON_DEMAND), replica("web", "node-b")],
    )

    proposal = proposed({**lists, "nodepools": [pool({annotation: value})]})

    assert drawn(proposal) == []
    assert reason in reasons(proposal)["node-b"]


def test_a_workload_that_was_just_moved_is_not_moved_again() -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b"),
        pods=[replica("large", "node-a", cpu="3", app="db"), replica("web", "node-b")],
        nodepools=[pool({"joiner.dev/consolidation-workload-cool-down": "1h"})],
    )
    moved = DisruptionHistory(moves={"default/ReplicaSet/web": NOW - timedelta(minutes=59)})

    assert [line for line in drawn(proposed(lists, moved)) if line.startswith("b")] == []
    assert "b" in " ".join(drawn(proposed(lists)))


def test_when_empty_keeps_nodes_with_pods() -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b"),
        pods=[replica("web", "node-b")],
        nodepools=[pool(consolidationPolicy="WhenEmpty")],
    )

    proposal = proposed(lists)

    assert drawn(proposal) == ["a ->"]
    assert reasons(proposal) == {
        "node-b": "Unconsolidatable: the consolidation policy of NodePool/default is WhenEmpty, "
        "and the node is not empty"
    }


def test_balanced_refuses_a_small_saving_for_many_evictions() -> None:
    large = [replica(f"db-{number}", "node-a", app="db", cpu="100m", nodeSelector=ON_DEMAND) for number in range(2)]
    small = [replica(f"web-{number}", "node-b", cpu="100m", nodeSelector=ON_DEMAND) for number in range(9)]
    lists = cluster(
        claim_and_node("a", kind="m.2xlarge"),
        claim_and_node("b"),
        pods=[*large, *small],
        nodepools=[pool(consolidationPolicy="Balanced")],
    )

    proposal = proposed(lists)

    assert drawn(proposal) == ["a -> s.large/on-demand db-0:default-1 db-1:default-1"]
    assert proposal.actions[0].score is not None
    assert proposal.actions[0].score > 0.5


def test_an_action_across_pools_is_taken_only_if_each_balanced_pool_gains_enough() -> None:
    def labelled(claim: Json, made: Json, of: str) -> tuple[Json, Json]:
        for one in (claim, made):
            one["metadata"]["labels"] = {**one["metadata"]["labels"], "karpenter.sh/nodepool": of}
        return claim, made

    lists = cluster(
        labelled(*claim_and_node("a", kind="m.2xlarge"), of="first"),
        labelled(*claim_and_node("b"), of="second"),
        pods=[replica("web-a", "node-a"), *(replica(f"web-b{number}", "node-b", cpu="100m") for number in range(9))],
        nodepools=[pool(name=name, consolidationPolicy="Balanced") for name in ("first", "second")],
    )
    snapshot = Snapshot.from_lists(lists)
    pools = {one.key: one for one in snapshot.pools}
    prices = NodePrices(Catalogue.from_json(CATALOGUE), pools, CLASSES)
    removed = find_candidates(snapshot, prices, now=NOW, history=DisruptionHistory()).candidates
    totals = PoolTotals({"NodePool/first": 1.0, "NodePool/second": 1.0}, dict.fromkeys(pools, 20.0))

    assert [one.pool.key for one in removed] == ["NodePool/first", "NodePool/second"]
    assert worthless(removed[:1], 0.1, totals) == ""
    # The saving is divided by price: the second pool gets a small part of it, and spends half of its eviction cost.
    assert worthless(removed, 0.1, totals).endswith("is below 0.5 (policy Balanced)")
    mixed = [replace(removed[0]), replace(removed[1], pool=pool_with_policy(removed[1], "WhenEmptyOrUnderutilized"))]
    assert worthless(mixed, 0.1, totals) == ""


def pool_with_policy(one: Candidate, policy: Any) -> NodePool:
    return replace(one.pool, disruption=replace(one.pool.disruption, policy=policy))


@pytest.mark.parametrize(
    "rule",
    [
        affinity(podAntiAffinity=[near(HOST, "web")]),
        {"topologySpreadConstraints": [spread(HOST)]},
        {"topologySpreadConstraints": [spread(ZONE)]},
    ],
)
def test_a_pod_that_may_run_on_no_other_node_keeps_its_node(rule: Mapping[str, Any]) -> None:
    nodes = [claim_and_node(name, zone=zone) for name, zone in zip("ab", ZONES, strict=False)]
    pods = [replica(f"web-{name}", f"node-{name}", nodeSelector=ON_DEMAND, **rule) for name in "ab"]

    assert drawn(proposed(cluster(*nodes, pods=pods))) == []


def test_a_pod_disruption_budget_limits_the_evictions_of_one_wave() -> None:
    nodes = [claim_and_node(name) for name in "abc"]
    pods = [replica(f"web-{name}", f"node-{name}", nodeSelector=ON_DEMAND) for name in "abc"]
    budget = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 1},
    }

    free, limited = (
        proposed(cluster(*nodes, pods=pods)),
        proposed(cluster(*nodes, pods=pods, poddisruptionbudgets=[budget])),
    )
    blocked = proposed(
        cluster(*nodes, pods=pods, poddisruptionbudgets=[{**budget, "status": {"disruptionsAllowed": 0}}])
    )

    assert sum(len(action.moves) for action in free.actions) == 2
    assert sum(len(action.moves) for action in limited.actions) == 1
    assert limited.remaining > 0
    assert drawn(blocked) == []
    assert reasons(blocked)["node-a"] == (
        "DisruptionBlocked: PodDisruptionBudget default/web allows no eviction of pod default/web-a"
    )


def test_a_node_with_more_pods_than_their_budget_allows_at_once_leaves_alone() -> None:
    """Its drain evicts them one after the other."""
    nodes = [claim_and_node(name) for name in "abc"]
    pods = [
        replica(f"web-{name}{number}", f"node-{name}", cpu="200m", nodeSelector=ON_DEMAND)
        for name in "abc"
        for number in "12"
    ]
    budget = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 1},
    }

    limited = proposed(cluster(*nodes, pods=pods, poddisruptionbudgets=[budget]))

    assert [len(action.moves) for action in limited.actions] == [2]
    assert limited.remaining > 0


def test_no_pod_moves_to_a_node_within_its_own_window_or_not_yet_initialized() -> None:
    pods = [replica("web", "node-b", nodeSelector=ON_DEMAND)]
    for destination in (
        claim_and_node("a", kind="m.xlarge", initialized=False),
        claim_and_node("a", kind="m.xlarge", initialized_at="2026-11-21T11:59:00Z"),
    ):
        lists = cluster(destination, claim_and_node("b"), pods=pods, nodepools=[pool(consolidateAfter="5m")])
        assert [line for line in drawn(proposed(lists)) if "web" in line] == []


def test_a_pool_whose_replacement_failed_only_loses_nodes() -> None:
    lists = cluster(claim_and_node("a", kind="m.xlarge"), pods=[replica("web", "node-a")])
    failed = DisruptionHistory(back_off={"NodePool/default": NOW + timedelta(minutes=5)})

    assert drawn(proposed(lists, failed)) == []
    assert drawn(proposed(lists)) == ["a -> s.large/spot web:default-1"]


def test_pending_pods_keep_the_node_that_they_fit_on() -> None:
    waiting = {**replica("next", "", cpu="1500m", nodeSelector=ON_DEMAND)}
    waiting["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    proposal = proposed(cluster(claim_and_node("a"), pods=[waiting]))

    assert drawn(proposal) == []
    assert reasons(proposal) == {"node-a": "DisruptionBlocked: pending pods fit on it"}


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


def test_a_node_that_a_commitment_pays_for_is_not_removed_for_its_list_price() -> None:
    lists = cluster(
        claim_and_node("a", kind="m.xlarge"),
        claim_and_node("b", kind="s.large"),
        pods=[replica("large", "node-a", cpu="3", nodeSelector=ON_DEMAND), replica("web", "node-b")],
    )

    def actions(*commitments: Commitment) -> list[str]:
        catalogue = replace(Catalogue.from_json(CATALOGUE), commitments=commitments)
        return drawn(
            consolidation.propose(
                Snapshot.from_lists(lists), catalogue, classes=CLASSES, now=NOW, history=DisruptionHistory()
            )
        )

    assert actions() == ["b -> web:node-a"]
    assert actions(Commitment("reserved-instances/m", 8, {"m.xlarge": 8})) == ["b -> web:node-a"]
    assert actions(Commitment("reserved-instances/s", 1, {"s.large": 1})) == []
