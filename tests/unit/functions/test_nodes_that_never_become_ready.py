"""Nodes that never become ready: how soon their pods get another one, what ends a longer wait, what events report."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.ledger import Ledger
from joiner.lifecycle.immediate_terminations import back_off_id_of_class
from tests.unit.functions.failing_nodes import GPU, FailingNodes, pool, with_gpu
from tests.unit.functions.fake_dynamodb import FakeDynamoDb
from tests.unit.functions.launched_nodes import node_of
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending


@pytest.fixture
def failing(cluster: SimulatedCluster) -> FailingNodes:
    return FailingNodes(cluster.ledger, cluster.store, cluster.kube, machine=cluster.machine)


MANY = [pending(f"web-{number:02d}") for number in range(30)]


class CountedCalls:
    """The calls of the table since it was made: how many of an operation on items of a kind."""

    def __init__(self, table: FakeDynamoDb) -> None:
        self._asked = table.asked
        table.asked.clear()

    def __getitem__(self, call: tuple[str, str]) -> int:
        return Counter(self._asked)[call]


def count_calls(cluster: FailingNodes) -> CountedCalls:
    table = cluster.ledger._client
    assert isinstance(table, FakeDynamoDb)
    return CountedCalls(table)


def waits(cluster: FailingNodes, failures: int) -> list[int]:
    """Let nodes fail; return after how many minutes each was replaced."""
    found = []
    for _ in range(failures):
        cluster.fail_nodes()
        found.append(cluster.minutes_to_next_launch())
    return found


def test_nodes_that_never_register_are_replaced_after_growing_waits(failing: FailingNodes) -> None:
    """A sweep each minute is all that happens: each wait ends with the first sweep after its end."""
    assert waits(failing.begin(), 8) == [0, 1, 2, 4, 8, 15, 30, 30]


def test_the_pod_and_the_claim_say_why_a_node_waits_until_when_and_what_ends_it(failing: FailingNodes) -> None:
    waits(failing.begin(), 2)
    failing.fail_nodes()
    third = failing.claims()[-1]
    until = (failing.now + timedelta(minutes=2, seconds=-1)).strftime("%Y-%m-%dT%H:%M:%SZ")

    condition = third.conditions["Registered"]
    assert condition.reason == "RegistrationTimeout"
    late = f"Instance {third.instance_id} has not joined the cluster in 15 minutes. Read its console output"
    ends = f"until {until}, or until the pool, its class, a DaemonSet or a NodeOverlay is changed"
    assert condition.message.startswith(late)
    assert condition.message.endswith(f". NodePool/default launches no other node for its pods {ends}")
    assert condition.message in failing.notes("NodeClaim")
    (note,) = [each for each in failing.notes("Pod") if until in each]
    assert f"its last 3 nodes here in a row never became ready for it, so none is launched {ends}" in note
    assert f"NodeClaim {third.name}: {late}" in note

    failing.pass_minutes(1)
    assert failing.now.strftime("%Y-%m-%dT%H:%M:%SZ") < until and len(failing.launches) == 3
    failing.pass_minutes(1)
    assert failing.now.strftime("%Y-%m-%dT%H:%M:%SZ") >= until and len(failing.launches) == 4


def test_the_next_plan_is_due_when_the_hold_ends_and_not_with_every_sweep(failing: FailingNodes) -> None:
    """The back-off after the second plan, a minute after the failure, would last for two more minutes."""
    waits(failing.begin(), 2)
    failing.fail_nodes()
    failed_at = failing.now - timedelta(seconds=1)

    def due(seconds: int) -> int:
        failing.now = failed_at + timedelta(seconds=seconds)
        return int(failing.survey(f"look-{seconds}")[0]["pendingPods"])

    assert [due(2), due(60), due(61)] == [0, 0, 1]
    failing.sweep_now()
    assert [due(62), due(119), due(120)] == [0, 0, 1]


def test_a_single_bad_node_delays_no_pod_and_a_good_one_after_it_ends_the_count(failing: FailingNodes) -> None:
    failing.begin()
    assert waits(failing, 2) == [0, 1]
    failing.boot_newest()
    assert node_of(failing, "web-1")

    failing.kube.put(pending("web-2"))
    failing.sweep_now()
    assert waits(failing, 1) == [0]


def test_a_node_that_joins_after_it_was_given_up_ends_the_count(failing: FailingNodes) -> None:
    failing.begin()
    failing.now += timedelta(minutes=15, seconds=1)
    failing.check_waves()
    assert [hold.failures for hold in failing.ledger.pool_holds()] == [1]

    failing.boots = True
    failing.boot()
    failing.now += timedelta(seconds=1)
    failing.sweep_now()
    failing.check_waves()

    assert failing.claims()[0].initialized
    assert failing.ledger.pool_holds() == []


def test_what_could_not_be_written_on_the_claim_is_counted_once(failing: FailingNodes) -> None:
    failing.begin()
    assert waits(failing, 1) == [0]
    failing.now = failing.launches[-1] + timedelta(minutes=15, seconds=1)

    def refuse_status(method: str, path: str, do: Any) -> Any:
        if method == "PATCH" and path.endswith("/status"):
            raise KubeError("busy", status=503)
        return do()

    failing.kube.fault = refuse_status
    failing.check_waves()
    failing.kube.fault = None
    failing.now += timedelta(seconds=5)
    failing.check_waves()

    (hold,) = failing.ledger.pool_holds()
    assert hold.failures == 2
    assert "launches no other node for its pods until" in failing.claims()[-1].conditions["Registered"].message


def test_a_node_that_becomes_ready_while_its_pool_is_held_ends_the_hold(failing: FailingNodes) -> None:
    """Two nodes are launched a minute apart: the first one fails, and then the second one becomes ready."""
    failing.begin()
    assert waits(failing, 3) == [0, 1, 2]
    failing.kube.put(pending("web-2"))
    failing.pass_minutes(1)
    first, second = failing.launches[-2:]
    assert second - first == timedelta(minutes=1)
    failing.now = first + timedelta(minutes=15, seconds=1)
    failing.check_waves()
    failing.now += timedelta(seconds=1)
    failing.sweep_now()
    assert len(failing.launches) == 5 and any("its last 4 nodes here" in note for note in failing.notes("Pod"))

    failing.boot_newest()
    failing.now += timedelta(seconds=1)
    failing.sweep_now()

    assert len(failing.launches) == 6


def test_another_pool_gets_the_pods_at_once(failing: FailingNodes) -> None:
    failing.begin(pending("web-1"), pool("default", weight=10), pool("spare"))

    assert waits(failing, 3) == [0, 0, 0]
    assert [claim.pool for claim in failing.claims()] == ["default", "default", "spare", "default"]


@pytest.mark.parametrize("corrected", ["class", "pool", "DaemonSet"])
def test_a_correction_ends_the_wait_at_the_next_sweep(failing: FailingNodes, corrected: str) -> None:
    daemon: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "network", "namespace": "kube-system", "uid": "uid-network", "generation": 1},
        "spec": {"template": {"spec": {"containers": []}}},
    }
    failing.kube.put(daemon)
    failing.begin()
    assert waits(failing, 5) == [0, 1, 2, 4, 8]
    failing.fail_nodes()
    failing.pass_minutes(2)
    assert len(failing.launches) == 6

    kind, name = {
        "class": (kinds.EC2NODECLASSES, "default"),
        "pool": (kinds.NODEPOOLS, "default"),
        "DaemonSet": (kinds.DAEMON_SETS, "network"),
    }[corrected]
    manifest = failing.kube.get(kind, name, namespace="kube-system" if corrected == "DaemonSet" else "")
    manifest["metadata"]["generation"] += 1
    failing.kube.put(manifest)
    if corrected == "class":
        failing.node_class = replace(failing.node_class, generation=failing.node_class.generation + 1)
    failing.pass_minutes(1)

    assert len(failing.launches) == 7
    assert waits(failing, 2) == [0, 1]  # it is counted anew


def test_a_node_that_fails_after_its_class_was_corrected_does_not_count(failing: FailingNodes) -> None:
    assert waits(failing.begin(), 4) == [0, 1, 2, 4]
    manifest = failing.kube.get(kinds.EC2NODECLASSES, "default")
    manifest["metadata"]["generation"] += 1
    failing.kube.put(manifest)
    failing.node_class = replace(failing.node_class, generation=failing.node_class.generation + 1)

    assert waits(failing, 1) == [0]
    message = failing.claims()[-2].conditions["Registered"].message
    assert "has not joined the cluster" in message and "launches no other node" not in message


def test_a_missing_device_makes_only_the_pods_wait_that_request_it(failing: FailingNodes) -> None:
    failing.begin(with_gpu(pending("gpu", cpu="500m")), pending("web", cpu="500m"), gpus=True)
    (first,) = failing.claims()
    assert first.requests[GPU] == 1
    failing.boot_newest()
    failing.fail_nodes()

    condition = failing.claims()[0].conditions["Initialized"]
    assert (condition.reason, "NVIDIA device plug-in must run on the node" in condition.message) == (
        "InitializationTimeout",
        True,
    )
    assert "NodePool/default launches no other node for its pods that request nvidia.com/gpu until" in condition.message
    second = failing.claims()[1]
    assert GPU not in second.requests
    (note,) = failing.notes_of_pod("gpu")
    assert "its last node here never became ready for it" in note and "device plug-in" in note

    failing.boot_newest()
    assert node_of(failing, "web") and not node_of(failing, "gpu")
    failing.pass_minutes(1)
    assert len(failing.claims()) == 3 and failing.claims()[2].requests[GPU] == 1


def test_a_ready_node_without_the_device_does_not_end_what_is_counted_for_it(failing: FailingNodes) -> None:
    """The pod with the device gets a slot on the node that was launched for the other pod, which has none either."""
    failing.begin(with_gpu(pending("gpu", cpu="500m")), pending("web", cpu="500m"), gpus=True)
    failing.boot_newest()
    failing.fail_nodes()
    failing.pass_minutes(1)
    second = failing.claims()[1]
    assert len(failing.ledger.assignments()[second.name].classes) == 2

    failing.boot_newest()

    assert failing.claims()[1].initialized and node_of(failing, "web")
    assert GPU in {hold.device for hold in failing.ledger.pool_holds()}


def test_the_replicas_of_a_static_pool_wait_alike(failing: FailingNodes) -> None:
    static = pool("default")
    del static["spec"]["weight"]
    static["spec"]["replicas"] = 1
    failing.begin(static)

    assert waits(failing, 4) == [0, 1, 2, 4]
    failing.fail_nodes()
    assert "NodePool/default launches no other node to replace it until" in (
        failing.claims()[-1].conditions["Registered"].message
    )


def test_an_unreadable_hold_is_reported_and_holds_nothing(failing: FailingNodes) -> None:
    assert waits(failing.begin(), 2) == [0, 1]
    failing.fail_nodes()
    (hold,) = failing.ledger.pool_holds()
    failing.machine._update("HELD", hold.id, "SET failures = :many", {":many": "many"})

    assert failing.survey("look")[0]["unreadable"] == 1
    failing.sweep_now()
    assert len(failing.launches) == 4


def test_giving_up_many_nodes_reads_assignments_and_holds_once(failing: FailingNodes) -> None:
    claims = len(failing.begin(*MANY).claims())
    failing.now += timedelta(minutes=16)
    asked = count_calls(failing)

    assert len(failing.check(failing.waves[-1])["failed"]) == claims > 20
    assert (asked["Query", "ASSIGNMENT"], asked["Query", "HELD"], asked["UpdateItem", "HELD"]) == (1, 1, 1)
    assert asked["DeleteItem", "ASSIGNMENT"] == claims


def test_opening_many_nodes_reads_assignments_and_holds_once(failing: FailingNodes) -> None:
    claims = len(failing.begin(*MANY).claims())
    asked = count_calls(failing)

    failing.boot_newest()

    assert sum(claim.initialized for claim in failing.claims()) == claims > 20
    assert (asked["Query", "ASSIGNMENT"], asked["Query", "HELD"], asked["DeleteItem", "HELD"]) == (1, 1, 0)
    assert asked["DeleteItem", "BACKOFF"] == 1


def kill_one(cluster: FailingNodes, image: str = "ami-1") -> str:
    """Count the death of an instance of the class before anything is launched; return the id of its record."""
    what, at = back_off_id_of_class("default", legacy=False), int(cluster.now.timestamp())
    cluster.ledger.back_off(what, "instance i-1 ended at its launch", at - 10, launched=at - 15, image=image)
    assert cluster.ledger._get("BACKOFF", what)
    return what


@pytest.mark.parametrize(("image", "stays"), [("ami-1", False), ("ami-2", True)])
def test_a_node_that_becomes_ready_ends_the_deaths_of_its_class_with_its_image(
    failing: FailingNodes, image: str, stays: bool
) -> None:
    what = kill_one(failing, image)

    failing.begin().boot_newest()

    (claim,) = failing.claims()
    assert (claim.initialized, claim.image_id) == (True, "ami-1")
    assert bool(failing.ledger._get("BACKOFF", what)) is stays


THROTTLED = ClientError({"Error": {"Code": "ProvisionedThroughputExceededException", "Message": ""}}, "DeleteItem")
NO_ANSWER = ReadTimeoutError(endpoint_url="https://dynamodb")
TROUBLE = pytest.mark.parametrize("error", [THROTTLED, NO_ANSWER], ids=["throttled", "no answer"])


class FailingDeletions:
    """A client of DynamoDB whose first deletion of an item of a kind fails."""

    def __init__(self, client: Any, kind: str, error: Exception) -> None:
        self.client = client
        self.kind = kind
        self.error = error
        self.left = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def delete_item(self, **asked: Any) -> Any:
        if self.left and asked["Key"]["kind"] == {"S": self.kind}:
            self.left -= 1
            raise self.error
        return self.client.delete_item(**asked)


def fail_one_deletion(cluster: FailingNodes, kind: str, error: Exception) -> None:
    cluster.ledger = Ledger(FailingDeletions(cluster.ledger._client, kind, error), cluster.ledger._table)


@TROUBLE
def test_a_node_is_initialized_although_the_deaths_of_its_class_cannot_be_deleted(
    failing: FailingNodes, error: Exception
) -> None:
    what = kill_one(failing)
    failing.begin(*MANY)
    fail_one_deletion(failing, "BACKOFF", error)

    failing.boot_newest()

    assert all(claim.initialized for claim in failing.claims())
    assert not failing.ledger._get("BACKOFF", what), "the next node of the class ends them"


@TROUBLE
def test_a_failed_deletion_of_an_assignment_leaves_one_node_to_the_next_check_and_all_pods_count(
    failing: FailingNodes, error: Exception
) -> None:
    failing.begin(*MANY)
    fail_one_deletion(failing, "ASSIGNMENT", error)

    failing.boot_newest()
    assert [claim.initialized for claim in failing.claims()].count(False) == 1
    assert failing.answers["check_registration"]["podsPlaced"] == len(MANY)  # the node is open

    answer = failing.check(failing.waves[-1])
    assert all(claim.initialized for claim in failing.claims())
    assert (answer["done"], answer["podsPlaced"], answer["placedAsPlanned"]) == (True, len(MANY), 1.0)


@TROUBLE
def test_a_failed_deletion_of_an_assignment_leaves_one_claim_to_give_up_to_the_next_check(
    failing: FailingNodes, error: Exception
) -> None:
    claims = len(failing.begin(*MANY).claims())
    failing.now += timedelta(minutes=16)
    fail_one_deletion(failing, "ASSIGNMENT", error)

    first = failing.check(failing.waves[-1])
    second = failing.check(failing.waves[-1])

    assert (len(first["failed"]), first["waiting"]) == (claims - 1, 1)
    assert (len(second["failed"]), second["waiting"]) == (claims, 0)
