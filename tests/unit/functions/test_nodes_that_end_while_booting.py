"""Instances that end before their nodes are ready for pods: how soon another one is launched, and what reports it."""

import json
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.interrupted_claims import take_noted_claims
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.pools import NodeClaim
from tests.unit.functions.delivered_interruptions import MINE, QueueRun, state_change
from tests.unit.functions.failing_nodes import FailingNodes
from tests.unit.functions.retirement_execution import RetirementExecution
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending

SHUT_DOWN = "Client.UserInitiatedShutdown"
NUMBERS = count()


@pytest.fixture
def failing(cluster: SimulatedCluster) -> FailingNodes:
    return FailingNodes(cluster.ledger, cluster.store, cluster.kube, machine=cluster.machine)


def retirements(cluster: FailingNodes) -> Retirements:
    return Retirements(cluster.ledger._client, cluster.ledger._table)


def end(cluster: FailingNodes, code: str = SHUT_DOWN, state: str = "stopping") -> NodeClaim:
    """End the instance of the newest claim twenty seconds after its launch; return the claim."""
    cluster.now += timedelta(seconds=20)
    claim = cluster.claims()[-1]
    instance = cluster.ec2.instances[claim.instance_id]
    instance["State"] = {"Name": state}
    instance["StateReason"] = {"Code": code, "Message": f"{code}: it ended"} if code else {}
    return claim


def retire(cluster: FailingNodes, *requests: RetirementRequest) -> None:
    """Retire the claims, and let the sweep a second later launch what it finds due."""
    RetirementExecution(cluster, f"retire-{next(NUMBERS)}").run(*requests, passes=1)
    cluster.now += timedelta(seconds=1)
    cluster.sweep_now()


def find_by_sweep(cluster: FailingNodes) -> list[RetirementRequest]:
    return [RetirementRequest.from_json(each) for each in cluster.survey(f"look-{next(NUMBERS)}")[1]["retire"]]


def find_by_event(cluster: FailingNodes) -> list[RetirementRequest]:
    """Deliver the event of the newest instance; return what the retirement reads that it starts."""
    queue = QueueRun(cluster)
    del cluster.ec2.instances[MINE]
    body = json.dumps(state_change("stopping", cluster.claims()[-1].instance_id))
    assert queue.handler.handle([{"messageId": "m-1", "body": body}], lambda: cluster.now) == []
    return list(take_noted_claims(queue.retirements.all().values(), owner="", now=cluster.now))


ROADS = {"sweep": find_by_sweep, "event": find_by_event}


def waits(cluster: FailingNodes, failures: int, code: str = SHUT_DOWN, state: str = "stopping") -> list[int]:
    """Let instances end; return after how many minutes each was replaced."""
    found = []
    for _ in range(failures):
        end(cluster, code, state)
        retire(cluster, *find_by_sweep(cluster))
        found.append(cluster.minutes_to_next_launch())
    return found


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [
        ("stopping", SHUT_DOWN, [0, 1, 2, 4, 8, 15, 30, 30]),
        ("stopped", "Client.InstanceInitiatedShutdown", [0, 1, 2, 4, 8, 15, 30, 30]),
        ("shutting-down", "Client.InstanceTerminated", [0, 1, 2, 4, 8, 15, 30, 30]),
        ("terminated", "", [0, 1, 2, 4, 8, 15, 30, 30]),
        ("terminated", "Server.SpotInstanceTermination", [0] * 8),
        ("stopped", "Server.SpotInstanceShutdown", [0] * 8),
        ("stopped", "Server.ScheduledStop", [0] * 8),
        ("terminated", "Server.InsufficientInstanceCapacity", [0] * 8),
    ],
)
def test_instances_that_end_while_they_boot_are_replaced_after_growing_waits(
    failing: FailingNodes, state: str, code: str, expected: list[int]
) -> None:
    """What EC2 ends itself has its own marks: the offering is left out, not the pool."""
    failing.begin()
    failing.now += timedelta(minutes=11)  # later ends of these codes are no failures at the launch
    assert waits(failing, 8, code, state) == expected


@pytest.mark.parametrize("road", sorted(ROADS))
def test_the_claim_and_the_pod_say_the_hold_its_cause_and_its_end(failing: FailingNodes, road: str) -> None:
    failing.begin()
    for _ in range(2):
        claim = end(failing)
        requests = ROADS[road](failing)
        assert [(each.claim, each.reason) for each in requests] == [(claim.name, RetirementReason.LOST)]
        until = (failing.now + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        retire(failing, *requests)

    cause = f"instance {claim.instance_id} ended before its node registered: {SHUT_DOWN}: it ended (a person or"
    ends = f"until {until}, or until the pool, its class, a DaemonSet or a NodeOverlay is changed"
    (note,) = [each for each in failing.notes("NodeClaim") if cause in each]
    assert note.endswith(f". NodePool/default launches no other node for its pods {ends}")
    (note,) = [each for each in failing.notes("Pod") if until in each]
    assert f"its last 2 nodes here in a row never became ready for it, so none is launched {ends}" in note
    assert f"NodeClaim {claim.name}: {cause}" in note
    assert len(failing.launches) == 2
    assert failing.minutes_to_next_launch() == 1


@pytest.mark.parametrize("reason", [RetirementReason.SPOT, RetirementReason.RESERVATION, RetirementReason.DELETED])
def test_an_instance_that_ends_after_a_warning_or_with_its_claim_does_not_count(
    failing: FailingNodes, reason: RetirementReason
) -> None:
    failing.begin()
    for _ in range(4):
        claim, known = end(failing), len(failing.launches)
        retirements(failing).hurry(claim.name, str(reason), 0, int(failing.now.timestamp()))
        retire(failing, RetirementRequest(claim.name, RetirementReason.LOST, claim.instance_id))
        assert len(failing.launches) == known + 1
    assert failing.ledger.pool_holds() == []


def test_a_claim_that_a_person_deleted_does_not_count(failing: FailingNodes) -> None:
    failing.begin()
    for _ in range(4):
        claim, known = failing.claims()[-1], len(failing.launches)
        failing.kube.delete(kinds.NODECLAIMS, claim.name, uid=claim.uid)
        end(failing)
        retire(failing, *find_by_sweep(failing))
        assert len(failing.launches) == known + 1
    assert failing.ledger.pool_holds() == []


def test_a_good_node_ends_the_count_and_other_pods_do_not_wait(failing: FailingNodes) -> None:
    failing.begin()
    assert waits(failing, 3) == [0, 1, 2]
    end(failing)
    failing.kube.put(pending("db", cpu="1"))
    retire(failing, *find_by_sweep(failing))
    assert len(failing.launches) == 5  # for the other pod

    failing.pass_minutes(4)
    failing.boot_newest()
    assert failing.ledger.pool_holds() == []


def join_unready(cluster: FailingNodes) -> NodeClaim:
    """Let the node of the newest claim join and not become Ready; return the claim."""
    newest, every = cluster.claims()[-1].instance_id, cluster.ec2.instances
    cluster.ec2.instances, cluster.boots = {newest: every[newest]}, True
    cluster.boot()
    cluster.ec2.instances, cluster.boots = every, False
    node = cluster.kube.get(kinds.NODES, f"node-{newest}")
    node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    cluster.kube.put(node)
    cluster.check(cluster.waves[-1])
    claim = cluster.claims()[-1]
    assert claim.registered and not claim.initialized
    return claim


def test_an_instance_that_ends_after_its_node_joined_and_before_it_was_ready_counts(failing: FailingNodes) -> None:
    failing.begin()
    found = []
    for _ in range(3):
        claim = join_unready(failing)
        end(failing)
        retire(failing, *find_by_sweep(failing))
        found.append(failing.minutes_to_next_launch())

    assert found == [0, 1, 2]
    cause = f"instance {claim.instance_id} ended before its node was ready for pods: {SHUT_DOWN}"
    assert any(each.startswith(cause) and "launches no other node" in each for each in failing.notes("NodeClaim"))
    assert failing.kube.get(kinds.NODEPOOLS, "default")["status"]["lastRegistrations"] == ["Registered"] * 3


def test_a_node_that_is_deleted_before_it_was_ready_counts_once(failing: FailingNodes) -> None:
    """The node controller may delete the Node before the instance's end is known."""
    failing.begin()
    found = []
    for _ in range(3):
        claim = join_unready(failing)
        end(failing)
        failing.kube.objects.pop(("nodes", "", f"node-{claim.instance_id}"))
        failing.check(failing.waves[-1])
        assert failing.claims()[-1].conditions["Registered"].reason == "NodeGone"
        retire(failing, *find_by_sweep(failing))
        found.append(failing.minutes_to_next_launch())

    assert found == [0, 1, 2]


def test_what_is_counted_before_the_claim_could_not_be_deleted_is_counted_once(failing: FailingNodes) -> None:
    failing.begin()
    assert waits(failing, 1) == [0]
    end(failing)
    requests = find_by_sweep(failing)
    execution = RetirementExecution(failing, "retire-refused")

    def refuse_deletion(method: str, _path: str, do: Any) -> Any:
        if method == "DELETE":
            raise KubeError("busy", status=503)
        return do()

    failing.kube.fault = refuse_deletion
    execution.run(*requests)
    failing.kube.fault = None
    failing.now += timedelta(seconds=10)
    retire(failing, *requests)

    assert [hold.failures for hold in failing.ledger.pool_holds()] == [2]
    assert any("launches no other node" in each for each in failing.notes("NodeClaim"))
