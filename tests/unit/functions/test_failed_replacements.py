"""Disruptions whose replacements fail, or were never written: the nodes are opened, and pools wait for failures."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from joiner.adapters.kube_errors import Forbidden, KubeError
from joiner.disruption.proposal import DisruptionAction
from tests.unit.functions.conftest import MakeCluster
from tests.unit.functions.disruption_execution import (
    event_reasons,
    failing_from,
    is_tainted,
    marked,
    planned,
    reason_of,
    records,
    settled,
)
from tests.unit.functions.grown_cluster import add_node, grow
from tests.unit.functions.simulated_cluster import SimulatedCluster


def test_a_replacement_that_was_not_launched_opens_the_node_and_the_pool_waits(grown: SimulatedCluster) -> None:
    marked(grown, DisruptionAction("Underutilized", ("default-1",), (planned(),), {"default/web-1": "n1"}))

    answer = settled(grown)

    assert (answer["retire"], answer["waiting"]) == ([], 0)
    [undone] = answer["undone"]
    assert undone["why"].endswith("could not be launched")
    assert (is_tainted(grown, "node-1"), reason_of(grown, "default-1"), records(grown).all()) == (False, "", [])
    assert {("DisruptionFailed", "Node"), ("DisruptionFailed", "NodeClaim")} <= event_reasons(grown)
    until = grown.ledger.disruption_back_offs(grown.now)["NodePool/default"]
    assert until == grown.now + timedelta(seconds=60)


def test_the_pool_of_a_failed_replacement_waits_like_that_of_the_node(grown: SimulatedCluster) -> None:
    other = replace(planned(), pool="NodePool/preferred")
    marked(grown, DisruptionAction("Underutilized", ("default-1",), (other,), {"default/web-1": "n1"}))
    failing = settled(grown)

    assert len(failing["undone"]) == 1
    assert grown.ledger.disruption_back_offs(grown.now).keys() == {"NodePool/default", "NodePool/preferred"}


def test_a_replacement_that_was_never_written_opens_the_node_and_the_pool_does_not_wait(
    grown: SimulatedCluster,
) -> None:
    """The execution stopped after it had marked the nodes."""
    marked(grown, DisruptionAction("Underutilized", ("default-1",), (planned(),), {"default/web-1": "n1"}))

    [undone] = settled(grown, written=False)["undone"]

    assert undone["why"].endswith("was not written")
    assert not is_tainted(grown, "node-1")
    assert grown.ledger.disruption_back_offs(grown.now) == {}


def test_a_replacement_that_another_execution_saw_and_that_is_gone_has_failed(grown: SimulatedCluster) -> None:
    marked(grown, DisruptionAction("Underutilized", ("default-1",), (planned(),), {"default/web-1": "n1"}))
    [record] = records(grown).all()
    old = grown.kube.objects["nodeclaims", "", "default-2"]
    grown.kube.put({**old, "metadata": {**old["metadata"], "name": record.replacements[0], "uid": "new"}, "status": {}})
    assert settled(grown, written=False)["waiting"] == 1
    del grown.kube.objects["nodeclaims", "", record.replacements[0]]

    [undone] = settled(grown, written=False)["undone"]

    assert undone["why"].endswith("could not be launched")
    assert list(grown.ledger.disruption_back_offs(grown.now)) == ["NodePool/default"]


def refused_patches(node: str) -> Callable[[str, str, Callable[[], dict[str, Any]]], dict[str, Any]]:
    """A fault: the API server refuses each change of this node, as an admission webhook does."""

    def refuses(method: str, path: str, answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if method == "PATCH" and path.endswith(f"/nodes/{node}"):
            raise Forbidden(f"node {node} must not change")
        return answer()

    return refuses


def test_a_node_that_cannot_be_opened_delays_no_other_disruption(grown: SimulatedCluster) -> None:
    """The replacement of node-1 was not launched; nothing objects to the removal of node-2."""
    add_node(grown, "default-3", "i-0003", "node-3")
    replaced = DisruptionAction("Underutilized", ("default-1", "default-3"), (planned(),), {"default/web-1": "n1"})
    marked(grown, replaced, DisruptionAction("Underutilized", ("default-2",), moves={"default/web-2": "node-1"}))
    grown.kube.fault = refused_patches("node-1")

    answer = settled(grown)

    assert [each["claim"] for each in answer["retire"]] == ["default-2"]
    assert answer["undone"] == [], "node-1 still has its taint"
    assert [record.claims for record in records(grown).all()] == [("default-1", "default-3"), ("default-2",)]
    assert (is_tainted(grown, "node-1"), is_tainted(grown, "node-3")) == (True, False)
    grown.kube.fault = None

    [undone] = settled(grown)["undone"]

    assert undone["claims"] == ["default-1", "default-3"]
    assert (is_tainted(grown, "node-1"), [record.claims for record in records(grown).all()]) == (
        False,
        [("default-2",)],
    )


def test_a_node_that_cannot_be_opened_makes_its_pool_wait_once(grown: SimulatedCluster) -> None:
    marked(grown, DisruptionAction("Underutilized", ("default-1",), (planned(),), {"default/web-1": "n1"}))
    first = grown.now

    def refuses(method: str, path: str, answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if method == "PATCH" and ("/nodes/" in path or "/nodeclaims/" in path):
            raise Forbidden(f"{path} must not change")
        return answer()

    grown.kube.fault = refuses

    for _ in range(4):
        assert settled(grown)["undone"] == []
        grown.now += timedelta(seconds=30)

    assert is_tainted(grown, "node-1")
    assert grown.ledger.disruption_back_offs(first) == {"NodePool/default": first + timedelta(seconds=60)}


def test_a_pool_waits_after_a_failed_replacement_whichever_call_of_the_undoing_fails(
    make_cluster: MakeCluster,
) -> None:
    failed = DisruptionAction("Underutilized", ("default-1",), (planned(),), {"default/web-1": "n1"})
    for number in range(1, 8):
        cluster = grow(make_cluster())
        marked(cluster, failed)
        cluster.kube.fault = failing_from(number)
        with suppress(KubeError):
            settled(cluster)
        cluster.kube.fault = None

        settled(cluster)

        assert (is_tainted(cluster, "node-1"), records(cluster).all()) == (False, []), number
        assert cluster.ledger.disruption_back_offs(cluster.now).keys() == {"NodePool/default"}, number
