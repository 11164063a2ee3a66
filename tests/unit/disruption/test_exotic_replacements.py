"""Consolidation launches bare metal and types with accelerators only for pods that ask for them; running nodes of such
types hold any pod, and do not stop consolidation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from joiner.catalogue import Catalogue
from joiner.disruption import consolidation
from joiner.disruption.proposal import Proposal
from joiner.planning import Snapshot
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import NOW, ON_DEMAND, cluster, drawn
from tests.unit.planning.drawn_clusters import CLASSES, Json
from tests.unit.planning.test_exotic_types import GPU, kind

TYPES: Mapping[str, Json] = {
    "m5.xlarge": kind("m5.xlarge", 4, 16, 0.20),
    "m5.2xlarge": kind("m5.2xlarge", 8, 32, 0.40),
    "m5.metal": kind("m5.metal", 4, 16, 0.05),
    "g5.xlarge": kind("g5.xlarge", 4, 16, 0.10, gpus=1),
    "g5.4xlarge": kind("g5.4xlarge", 16, 64, 0.90, gpus=1),
}


def on(name: str, kind_of: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return claim_and_node(name, kind=kind_of, catalogue=TYPES)


def pod(name: str, where: str, cpu: str, gpus: int = 0) -> Json:
    made = replica(name, where, cpu=cpu, nodeSelector=ON_DEMAND)
    if gpus:
        made["spec"]["containers"][0]["resources"]["requests"][GPU] = str(gpus)
    return made


def proposed(lists: Mapping[str, Sequence[Json]]) -> Proposal:
    return consolidation.propose(Snapshot.from_lists(lists), Catalogue.from_json(TYPES), classes=CLASSES, now=NOW)


def test_a_node_is_replaced_by_a_common_type_although_others_are_cheaper() -> None:
    proposal = proposed(cluster(on("a", "m5.2xlarge"), pods=[pod("web", "node-a", "3")]))

    assert drawn(proposal) == ["a -> m5.xlarge/on-demand web:default-1"]
    assert {one.instance_type for one in proposal.actions[0].replacements[0].alternatives} == {"m5.xlarge"}


def test_pods_beside_pods_that_need_a_device_do_not_open_a_node_with_it() -> None:
    nodes = [on("a", "m5.2xlarge"), on("b", "g5.xlarge")]

    proposal = proposed(cluster(*nodes, pods=[pod("web", "node-a", "3"), pod("gpu", "node-b", "3", gpus=1)]))

    assert drawn(proposal) == ["a -> m5.xlarge/on-demand web:default-1"]


def test_pods_join_the_replacement_of_a_pod_that_needs_a_device() -> None:
    pods = [pod("gpu", "node-a", "1", gpus=1), pod("web", "node-a", "1")]

    assert drawn(proposed(cluster(on("a", "g5.4xlarge"), pods=pods))) == [
        "a -> g5.xlarge/on-demand gpu:default-1 web:default-1"
    ]


def test_running_nodes_of_bare_metal_take_pods_of_other_nodes_and_do_not_raise_the_bound() -> None:
    """On nodes of common types, the pods of the bare metal would cost more than all nodes cost now."""
    metal, common = [on(name, "m5.metal") for name in "abc"], on("d", "m5.xlarge")
    large = [pod(f"web-{name}", f"node-{name}", "3500m") for name in "abc"]

    proposal = proposed(cluster(*metal, common, pods=[*large, pod("api", "node-d", "100m")]))

    assert [action.claims for action in proposal.actions] == [("d",)]
    assert proposal.lower_bound_per_hour < proposal.price_per_hour
