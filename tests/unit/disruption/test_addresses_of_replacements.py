"""Replacements are launched while the nodes that they replace still run, so a wave launches no more of them in a subnet
than it has free addresses.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from joiner.catalogue import Catalogue
from joiner.disruption import consolidation
from joiner.disruption.proposal import Proposal
from joiner.disruption.replacements import propose_replacements
from joiner.planning import PlannedNode, Snapshot
from joiner.pools import ResolvedNodeClass, Subnet
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import NOW, ON_DEMAND, cluster, drawn, pool, reasons
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, ZONES, Json, instance_type

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
SPOT = {"karpenter.sh/capacity-type": "spot"}
SPOT_TO_SPOT = {"joiner.dev/spot-to-spot-consolidation": "true", "joiner.dev/spot-to-spot-least-types": "1"}
DRIFTED = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": "2026-11-21T10:00:00Z"}


def in_small_subnets(*free: int | None) -> dict[str, ResolvedNodeClass]:
    subnets = tuple(Subnet(f"subnet-{zone}", zone, free_ips=left) for zone, left in zip(ZONES, free, strict=True))
    return {"EC2NodeClass/default": ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets)}


def oversized(count: int, capacity_type: str = "on-demand") -> dict[str, Sequence[Json]]:
    """Return a cluster of so many nodes that are too large for their pods, which need a node each."""
    nodes = [claim_and_node(f"n{number}", kind="m.xlarge", capacity_type=capacity_type) for number in range(count)]
    wanted = SPOT if capacity_type == "spot" else ON_DEMAND
    pods = [
        replica(f"web-{number}", f"node-n{number}", cpu="500m", memory="64Mi", nodeSelector=wanted, affinity=APART)
        for number in range(count)
    ]
    return cluster(*nodes, pods=pods)


def consolidated(
    lists: Mapping[str, Sequence[Json]],
    classes: Mapping[str, ResolvedNodeClass],
    catalogue: Mapping[str, Json] = CATALOGUE,
) -> Proposal:
    return consolidation.propose(Snapshot.from_lists(lists), Catalogue.from_json(catalogue), classes=classes, now=NOW)


def replacements(proposal: Proposal) -> list[PlannedNode]:
    return [node for action in proposal.actions for node in action.replacements]


def zones_of(proposal: Proposal) -> Counter[str]:
    return Counter(node.zone for node in replacements(proposal))


def most_launches(proposal: Proposal) -> Counter[str]:
    """Return how many replacements EC2 may launch in each zone."""
    return Counter(zone for node in replacements(proposal) for zone in {one.zone for one in node.alternatives})


def test_a_wave_launches_no_more_replacements_than_subnets_have_free_addresses() -> None:
    lists = oversized(6)

    proposal = consolidated(lists, in_small_subnets(1, 0, 0))

    assert len(consolidated(lists, CLASSES).actions) == 6
    assert zones_of(proposal) == {ZONES[0]: 1}
    assert len(reasons(proposal)) == 5
    assert set(reasons(proposal).values()) == {
        "Unconsolidatable: its pods do not fit on other nodes, and no cheaper node holds them "
        "(the subnets in us-test-1a, us-test-1b, us-test-1c have no further free address)"
    }


def test_replacements_go_to_zones_that_have_addresses_and_so_do_their_alternatives() -> None:
    proposal = consolidated(oversized(6), in_small_subnets(1, 2, 500))

    assert zones_of(proposal) == {ZONES[0]: 1, ZONES[1]: 2, ZONES[2]: 3}
    launches = most_launches(proposal)
    assert (launches[ZONES[0]], launches[ZONES[1]]) == (1, 2)


def test_subnets_whose_addresses_are_unknown_limit_no_replacement() -> None:
    lists = oversized(6)

    assert consolidated(lists, in_small_subnets(None, None, None)) == consolidated(lists, CLASSES)
    assert consolidated(lists, in_small_subnets(500, 500, 500)) == consolidated(lists, CLASSES)


def test_the_fleet_chooses_spot_nodes_in_zones_with_addresses_only() -> None:
    lists = {**oversized(4, capacity_type="spot"), "nodepools": [pool(SPOT_TO_SPOT)]}

    everywhere, proposal = consolidated(lists, CLASSES), consolidated(lists, in_small_subnets(500, 1, 1))

    assert all(number > 1 for number in most_launches(everywhere).values())
    assert set(most_launches(everywhere)) == set(ZONES)
    assert len(proposal.actions) == 4
    launches = most_launches(proposal)
    assert max(launches[ZONES[1]], launches[ZONES[2]]) == 1


@pytest.mark.parametrize("zones", [ZONES[:1], ZONES[1:]])
def test_the_reason_names_the_zones_in_which_a_replacement_could_be(zones: Sequence[str]) -> None:
    lists = oversized(1)
    terms = [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": list(zones)}]}]
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    lists["pods"][0]["spec"]["affinity"] = {**APART, "nodeAffinity": node_affinity}

    proposal = consolidated(lists, in_small_subnets(0, 0, 0))

    assert list(reasons(proposal).values()) == [
        "Unconsolidatable: its pods do not fit on other nodes, and no cheaper node holds them "
        f"(the subnets in {', '.join(zones)} have no further free address)"
    ]


def test_the_reason_names_no_zone_if_no_cheaper_node_holds_the_pods_there() -> None:
    """Three of four nodes that are too large get an address; the fifth node is as small as possible."""
    lists = oversized(5)
    lists["nodes"][4]["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "s.large"

    proposal = consolidated(lists, in_small_subnets(1, 1, 1))

    assert zones_of(proposal) == dict.fromkeys(ZONES, 1)
    assert sorted("no further free address" in why for why in reasons(proposal).values()) == [False, True]
    assert reasons(proposal)["node-n4"] == (
        "Unconsolidatable: its pods do not fit on other nodes, and no cheaper node holds them"
    )


SPOT_OF_ZONES = {
    "big": instance_type("big", 8, 32, 1.0),
    **{f"only-{zone}": instance_type(f"only-{zone}", 2, 8, 0.2, zones=[zone]) for zone in ZONES},
}


def test_a_node_whose_replacement_is_dropped_for_addresses_has_the_reason() -> None:
    """Each replacement needs a choice of three types, one in each zone; two zones have an address for one of them."""
    nodes = [claim_and_node(f"n{n}", kind="big", capacity_type="spot", catalogue=SPOT_OF_ZONES) for n in range(2)]
    pods = [replica(f"web-{n}", f"node-n{n}", nodeSelector=SPOT, affinity=APART) for n in range(2)]
    three = {**SPOT_TO_SPOT, "joiner.dev/spot-to-spot-least-types": "3"}
    lists = {**cluster(*nodes, pods=pods), "nodepools": [pool(three)]}

    proposal = consolidated(lists, in_small_subnets(500, 1, 1), SPOT_OF_ZONES)

    assert len(consolidated(lists, CLASSES, SPOT_OF_ZONES).actions) == 2
    assert len(proposal.actions) == 1
    assert list(reasons(proposal).values()) == [
        "Unconsolidatable: 1 spot types are cheaper, and 3 are required (joiner.dev/spot-to-spot-least-types), "
        "in zones whose subnets have a free address"
    ]


@pytest.mark.parametrize("free", range(4))
def test_replacements_keep_no_address_in_zones_in_which_they_cannot_be(free: int) -> None:
    """Three replacements must be in the first zone; the other one may be in each zone."""
    lists = oversized(4)
    for number, pod in enumerate(lists["pods"]):
        if number != free:
            pod["spec"]["nodeSelector"] = {**ON_DEMAND, "topology.kubernetes.io/zone": ZONES[0]}

    proposal = consolidated(lists, in_small_subnets(500, 1, 1))

    found = {
        pod: {one.zone for one in action.replacements[0].alternatives}
        for action in proposal.actions
        for pod in action.moves
    }
    assert found == {f"default/web-{number}": set(ZONES) if number == free else {ZONES[0]} for number in range(4)}


OLD_AND_SMALL = {
    "old": instance_type("old", 4, 16, 1.0),
    "small": instance_type("small", 2, 8, 0.3),
}


def repacked(classes: Mapping[str, ResolvedNodeClass]) -> Proposal:
    """Return what is proposed for a node whose pods are cheaper on two smaller ones."""
    pods = [replica(f"web-{number}", "node-a", cpu="1200m", memory="1Gi", nodeSelector=ON_DEMAND) for number in (0, 1)]
    lists = cluster(claim_and_node("a", kind="old", catalogue=OLD_AND_SMALL), pods=pods)
    return consolidated(lists, classes, OLD_AND_SMALL)


def test_a_repack_divides_its_nodes_among_zones_with_addresses() -> None:
    unlimited = ["a -> small/on-demand small/on-demand web-0:default-1 web-1:default-2"]

    assert drawn(repacked(CLASSES)) == unlimited
    assert drawn(repacked(in_small_subnets(1, 1, 0))) == unlimited
    assert zones_of(repacked(in_small_subnets(1, 1, 0))) == {ZONES[0]: 1, ZONES[1]: 1}
    assert drawn(repacked(in_small_subnets(1, 0, 0))) == []


def test_drifted_nodes_are_replaced_as_far_as_there_are_addresses() -> None:
    lists = oversized(4)
    for claim in lists["nodeclaims"]:
        claim["status"]["conditions"].append(DRIFTED)

    proposal = propose_replacements(
        Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=in_small_subnets(1, 1, 0), now=NOW
    )

    assert [action.reason for action in proposal.actions] == ["Drifted", "Drifted"]
    assert most_launches(proposal) == {ZONES[0]: 1, ZONES[1]: 1}
    assert len(reasons(proposal)) == 2
    assert all("free addresses: use larger or more subnets" in why for why in reasons(proposal).values())


@pytest.mark.parametrize("free", [0, 1])
def test_drifted_nodes_of_a_static_pool_wait_for_the_addresses_of_their_replacements(free: int) -> None:
    lists = cluster(*(claim_and_node(f"n{number}") for number in range(2)))
    for claim in lists["nodeclaims"]:
        claim["status"]["conditions"].append(DRIFTED)
    fixed = pool()
    world = {**lists, "nodepools": [{**fixed, "spec": {**fixed["spec"], "replicas": 2}}]}

    proposal = propose_replacements(
        Snapshot.from_lists(world), Catalogue.from_json(CATALOGUE), classes=in_small_subnets(free, 0, 0), now=NOW
    )

    assert [len(action.replacements) for action in proposal.actions] == [1] * free
    assert len(reasons(proposal)) == 2 - free
    assert all("its pool lacks a replacement" in why and "free address" in why for why in reasons(proposal).values())
