"""A warning of EC2 that is recorded while a voluntary retirement begins and is refused: the node is drained at once."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters.retirements import Retirements
from tests.unit.functions.delivered_interruptions import NOW, RETIREMENT, QueueRun, state_change, warning
from tests.unit.functions.disruption_execution import is_tainted
from tests.unit.functions.grown_cluster import running
from tests.unit.functions.retirement_execution import retire
from tests.unit.functions.simulated_cluster import SimulatedCluster


def retirements_of(cluster: SimulatedCluster) -> Retirements:
    return Retirements(cluster.ledger._client, cluster.ledger._table)


def warn(cluster: SimulatedCluster, reason: str = "spot", *, ago: int = 0) -> None:
    now = int(cluster.now.timestamp())
    retirements_of(cluster).hurry("default-1", reason, now + 120, now - ago, instance="i-0001")


def is_deleting(cluster: SimulatedCluster, claim: str) -> bool:
    manifest = cluster.kube.objects.get(("nodeclaims", "", claim))
    return manifest is None or bool(manifest["metadata"].get("deletionTimestamp"))


@pytest.mark.parametrize("reason", ["spot", "reservation", "maintenance"])
def test_a_refused_retirement_goes_on_with_a_recorded_warning(grown: SimulatedCluster, reason: str) -> None:
    warn(grown, reason)

    done = retire(grown, ("default-1", "empty"), passes=1)

    assert done.left_out == {}
    assert [(each["claim"], each["reason"]) for each in done.entries] == [("default-1", reason)]
    assert is_deleting(grown, "default-1")


def test_a_refused_retirement_goes_on_with_a_fresh_loss(grown: SimulatedCluster) -> None:
    warn(grown, "lost", ago=300)

    assert retire(grown, ("default-1", "empty"), passes=1).left_out == {}

    assert is_deleting(grown, "default-1")


@pytest.mark.parametrize(("when", "opened"), [(1, False), (2, True)], ids=["before it is opened", "meanwhile"])
def test_a_warning_that_comes_while_a_retirement_is_undone_drains_the_node(
    grown: SimulatedCluster, when: int, opened: bool
) -> None:
    """A pod is bound before the taint. A node with a warning is not opened; one that is opened is closed again."""
    del grown.kube.objects["pods", "default", "web-1"]
    tainted: list[bool] = []

    def disturbed(method: str, path: str, answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if method == "PATCH" and path.endswith("/nodes/node-1"):
            if not tainted:
                grown.kube.put(running({"name": "late", "namespace": "default"}, "node-1"))
            if len(tainted) + 1 == when:
                warn(grown)
            written = answer()
            tainted.append(is_tainted(grown, "node-1"))
            return written
        return answer()

    grown.kube.fault = disturbed

    done = retire(grown, ("default-1", "empty"), passes=1)

    assert [each["reason"] for each in done.entries] == ["spot"]
    assert (False in tainted, tainted[-1], is_deleting(grown, "default-1")) == (opened, True, True)


def test_a_loss_that_was_recorded_long_ago_is_left_to_the_sweep_which_asks_ec2(grown: SimulatedCluster) -> None:
    warn(grown, "lost", ago=301)

    done = retire(grown, ("default-1", "empty"))

    assert done.left_out == {"default-1": "its node is not empty"}
    assert not is_deleting(grown, "default-1")
    assert retirements_of(grown).all()["default-1"].reasons == ("lost",)


class GivenUpMeanwhile(Retirements):
    """The owner gives the claim up right before a warning is recorded."""

    def hurry(self, claim: str, *asked: Any, **more: Any) -> None:
        self.give_up(claim, "arn:voluntary", "empty")
        super().hurry(claim, *asked, **more)

    def add(self, claim: str, reason: str, *, instance: str = "") -> bool:
        self.give_up(claim, "arn:voluntary", "empty")
        return super().add(claim, reason, instance=instance)


@pytest.mark.parametrize("event", [warning(), state_change("stopped")], ids=["warning", "loss"])
def test_a_warning_whose_owner_gives_the_claim_up_meanwhile_starts_a_retirement(
    cluster: SimulatedCluster, event: dict[str, Any]
) -> None:
    desk = QueueRun(cluster)
    desk.handler._retirements = GivenUpMeanwhile(cluster.ledger._client, cluster.ledger._table)
    desk.retirements.begin("default-a", "arn:voluntary", "empty", int((NOW - timedelta(seconds=5)).timestamp()))
    desk.ended("stopped")

    assert desk.deliver(event) == []

    assert ("retire", RETIREMENT) in desk.states.started


def test_a_warning_whose_owner_attends_to_the_claim_starts_nothing(cluster: SimulatedCluster) -> None:
    desk = QueueRun(cluster)
    desk.retirements.begin("default-a", "arn:drains", "empty", int(NOW.timestamp()))

    assert desk.deliver(warning()) == []

    assert desk.states.started == []
