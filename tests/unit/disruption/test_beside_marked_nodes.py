"""Proposals while another disruption awaits its replacements: its pods keep their slots and their places."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.disruption import consolidation
from joiner.disruption.disruption_history import DisruptionHistory
from joiner.disruption.proposal import Proposal
from joiner.disruption.replacements import propose_replacements
from joiner.disruption.wave_choice import WaveInputs, propose_wave
from joiner.names import DISRUPTED
from joiner.planning import Ceilings, Snapshot
from joiner.pools.timestamps import format_timestamp
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import NOW, ON_DEMAND, cluster, drawn, reasons
from tests.unit.disruption.test_replacements import big, going, kept, machine, pool
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, ZONES, Json

REFERENCE = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}}
MARKED = DisruptionHistory(disrupting=frozenset({"marked"}))


def marked(node: tuple[Json, Json]) -> tuple[Json, Json]:
    node[1]["spec"]["taints"] = [{"key": DISRUPTED, "effect": "NoSchedule"}]
    return node


def booting(name: str, *, minutes: float, **fields: Any) -> tuple[Json, Json]:
    """Return claim and node of an instance that was launched so many minutes ago and is not initialized."""
    launched = format_timestamp(NOW - timedelta(minutes=minutes))
    return claim_and_node(name, initialized=False, initialized_at=launched, **fields)


def snapshot(lists: Mapping[str, Any], slots: Mapping[str, str]) -> Snapshot:
    """Return the snapshot in which these claims have a slot for the class of a pod each, by its name."""
    classes = {pod.name: pod.class_key for pod in Snapshot.from_lists(lists).pods}
    return Snapshot.from_lists(lists, assignments={claim: {classes[pod]: 1} for claim, pod in slots.items()})


def replaced(*nodes: tuple[Json, Json], pods: Sequence[Json], **slots: str) -> Proposal:
    lists = {**cluster(*nodes, pods=pods), "nodepools": [pool()], "ec2nodeclasses": [REFERENCE]}
    catalogue = Catalogue.from_json(CATALOGUE)
    return propose_replacements(snapshot(lists, slots), catalogue, classes=CLASSES, now=NOW, history=MARKED)


@pytest.mark.parametrize("minutes", [1, 5])
def test_a_pod_of_the_same_deployment_gets_no_slot_of_a_replacement_that_boots(minutes: int) -> None:
    pods = [big("first", "node-marked"), big("second", "node-old")]
    proposal = replaced(
        marked(machine("marked", drifted=3)),
        machine("old", drifted=2),
        booting("new", minutes=minutes),
        pods=pods,
        new="first",
    )

    assert going(proposal) == [("Drifted", "old", 1)]
    assert proposal.actions[0].moves == {"default/second": proposal.actions[0].replacements[0].name}


@pytest.mark.parametrize(
    ("minutes", "action", "why"),
    [
        (1, [], "old: it is drifted (AMIDrift), and pod default/web would move to node-new, which is not initialized"),
        (5, [("Drifted", "old", 1)], ""),
    ],
)
def test_the_room_of_a_booting_node_is_awaited_until_the_node_is_overdue(
    minutes: int, action: list[tuple[str, str, int]], why: str
) -> None:
    proposal = replaced(
        machine("old", drifted=2), booting("new", minutes=minutes), pods=[replica("web", "node-old", cpu="1")]
    )

    assert (going(proposal), kept(proposal)) == (action, [why] if why else [])


def test_the_pods_of_outdated_nodes_get_no_place_of_pods_that_are_to_move_there() -> None:
    pods = [
        replica("moving", "node-marked", cpu="1"),
        big("slotted", "node-marked", cpu="1500m"),
        replica("web", "node-old", cpu="1"),
    ]
    there = claim_and_node("there")
    free = replaced(machine("old", drifted=2), there, pods=pods[2:])
    taken = replaced(
        marked(machine("marked", drifted=3, kind="m.xlarge")),
        machine("old", drifted=2),
        there,
        booting("new", minutes=5),
        pods=pods,
        new="slotted",
    )

    assert free.actions[0].moves == {"default/web": "node-there"}
    assert going(taken) == [("Drifted", "old", 1)]
    assert taken.actions[0].moves == {"default/web": taken.actions[0].replacements[0].name}


def test_no_place_of_a_pod_that_is_to_move_is_on_a_node_that_is_due() -> None:
    pods = [replica("moving", "node-marked", cpu="1"), replica("web", "node-old", cpu="100m")]
    there = claim_and_node("there")
    proposal = replaced(marked(machine("marked", drifted=3)), machine("old", drifted=2), there, pods=pods)

    assert going(proposal) == [("Drifted", "old", 0)]
    assert proposal.actions[0].moves == {"default/web": "node-there"}


def test_pods_that_are_to_move_count_where_they_run() -> None:
    """The pod must share a zone with one that still runs in another zone than the one to which it will move."""
    rule = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "topology.kubernetes.io/zone"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    database = replica("moving", "node-marked", cpu="1")
    database["metadata"]["labels"] = {"app": "db"}
    pods = [database, big("web", "node-old", affinity=affinity), big("full", "node-near")]
    proposal = replaced(
        marked(machine("marked", drifted=3, zone=ZONES[0])),
        machine("old", drifted=2, zone=ZONES[0]),
        claim_and_node("near", zone=ZONES[0]),
        claim_and_node("there", zone=ZONES[1]),
        pods=pods,
    )

    [action] = proposal.actions
    assert action.moves == {"default/web": action.replacements[0].name}
    assert action.replacements[0].offer.zone == ZONES[0]


def test_pods_that_wait_keep_the_room_of_an_overdue_node() -> None:
    """Another pod waits for the room of the overdue node, and needs no further node."""
    waiting = replica("late", "", cpu="1", memory="1Gi")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    waiting["status"] = {"phase": "Pending", "conditions": [condition]}
    del waiting["spec"]["nodeName"]
    proposal = replaced(
        machine("old", drifted=2), booting("new", minutes=5), pods=[big("web", "node-old", cpu="1200m"), waiting]
    )

    [action] = proposal.actions
    assert action.moves == {"default/web": action.replacements[0].name}
    assert action.replacements[0].pods == ("default/web",)


def consolidated(*more: tuple[Json, Json], **slots: str) -> Proposal:
    nodes = [claim_and_node("a", kind="m.xlarge"), claim_and_node("b", kind="s.large"), marked(claim_and_node("c"))]
    large = replica("large", "node-a", cpu="2", nodeSelector=ON_DEMAND)
    web = replica("web", "node-b", cpu="1", nodeSelector=ON_DEMAND)
    moving = replica("moving", "node-c", cpu="1", nodeSelector=ON_DEMAND)
    world = snapshot(cluster(*nodes, *more, pods=[large, web, moving]), slots)
    return consolidation.propose(world, Catalogue.from_json(CATALOGUE), classes=CLASSES, now=NOW)


def test_pods_with_a_slot_on_a_replacement_block_no_consolidation() -> None:
    blocked = consolidated()
    slotted = consolidated(booting("new", minutes=5), new="moving")

    assert drawn(blocked) == []
    assert reasons(blocked)["node-a"] == "DisruptionBlocked: pods of nodes that are being disrupted move to it"
    assert drawn(slotted) == ["b -> web:node-a"]
    assert not reasons(slotted)["node-a"].startswith("DisruptionBlocked")


def test_a_pool_whose_replacements_are_overdue_waits_and_others_do_not() -> None:
    until = NOW + timedelta(minutes=7)
    history = DisruptionHistory(awaited={"NodePool/late": until})
    pools = [{**pool(), "metadata": {"name": name}} for name in ("late", "other")]
    nodes = [machine(name, drifted=2, pool=name) for name in ("late", "other")]
    pods = [
        big(f"web-{name}", f"node-{name}", nodeSelector={"karpenter.sh/nodepool": name}) for name in ("late", "other")
    ]
    lists = {**cluster(*nodes, pods=pods), "nodepools": pools, "ec2nodeclasses": [REFERENCE]}
    inputs = WaveInputs(Catalogue.from_json(CATALOGUE), frozenset(), CLASSES, Ceilings(), history)

    proposal = propose_wave(Snapshot.from_lists(lists), inputs, NOW)

    assert going(proposal) == [("Drifted", "other", 1)]
    why = f"replacements are overdue: NodePool/late waits until {format_timestamp(until)}"
    assert kept(proposal) == [f"late: it is drifted (AMIDrift), and {why}"]
