"""Instances that EC2 launches and terminates within seconds: claim, pool, class and pods show the reason, and the same
launch is not repeated at once.
"""

from datetime import timedelta
from typing import Any

import pytest

from functions.begin_retirement import handler as begin_retirement
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.payload import Execution, Task
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.immediate_terminations import back_off_id_of_class, find_launch_failure, hold_class_back
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from tests.unit.functions.delivered_interruptions import MINE, NOW, QueueRun, state_change
from tests.unit.functions.retirement_execution import RetirementExecution
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.functions.small_account import CLASS, CLUSTER, NOON

KMS = ("Client.InternalError", "Client.InternalError: Client error on launch")
DEFAULT = back_off_id_of_class("default", legacy=False)


def die(cluster: SimulatedCluster, code: str, message: str) -> list[str]:
    """Terminate all instances; return their ids."""
    for instance in cluster.ec2.instances.values():
        instance["State"] = {"Name": "shutting-down"}
        instance["StateReason"] = {"Code": code, "Message": message}
        instance["LaunchTime"] = cluster.now - timedelta(seconds=5)
    return sorted(cluster.ec2.instances)


def at(cluster: SimulatedCluster) -> int:
    return int(cluster.now.timestamp())


def test_the_class_of_instances_that_died_of_its_settings_waits(launched: SimulatedCluster) -> None:
    die(launched, *KMS)

    launched.survey("s1")

    assert launched.ledger.back_offs(at(launched)) == {}  # the first failure is retried at once
    launched.now += timedelta(seconds=20)
    launched.survey("s2")
    assert launched.ledger.back_offs(at(launched)) == {}  # two instances that end together are one failure

    launch_again(launched)
    first, _ = die(launched, *KMS)
    launched.survey("s3")

    wait = launched.ledger.back_offs(at(launched))[DEFAULT]
    assert (wait.tries, wait.until) == (2, at(launched) + 60)
    assert wait.reason.startswith(
        f"instance {first} ended at its launch: Client.InternalError: Client error on launch. "
    )
    assert "kms:CreateGrant" in wait.reason


def launch_again(cluster: SimulatedCluster) -> None:
    """Let all claims have other instances, and their retirements be forgotten."""
    cluster.now += timedelta(seconds=20)
    retirements = Retirements(cluster.ledger._client, cluster.ledger._table)
    for name in retirements.all():
        retirements._delete("RETIREMENT", name)


@pytest.mark.parametrize(
    ("what", "of_class", "expected"),
    [
        (DEFAULT, True, [0, 60, 120, 240, 480, 900, 1800, 1800]),
        ("on-demand#m5.large#us-east-1a", False, [60, 120, 240, 480, 900, 1800, 1800, 1800]),
    ],
    ids=["of a class", "of an offering"],
)
def test_another_failure_after_the_wait_waits_for_longer(
    launched: SimulatedCluster, what: str, of_class: bool, expected: list[int]
) -> None:
    def fail() -> Any:
        return launched.ledger.back_off(
            what, "of something", at(launched), launched=at(launched) - 1 if of_class else None
        )

    waits = []
    for _ in range(8):
        waits.append(fail().until - at(launched))
        launched.now += timedelta(seconds=waits[-1] + 2)

    assert waits == expected
    launched.now += timedelta(hours=2)
    assert fail().tries == 1


def test_a_later_node_that_is_ready_ends_the_count_of_its_class(launched: SimulatedCluster) -> None:
    first = launched.ledger.back_off(DEFAULT, "of something", at(launched), launched=at(launched) - 1)
    assert (first.tries, first.until) == (1, at(launched)), "the next launch follows at once"

    launched.ledger.end_back_off(DEFAULT, at(launched) - 1, "")
    launched.now += timedelta(minutes=10)
    second = launched.ledger.back_off(DEFAULT, "of something", at(launched), launched=at(launched) - 5)
    assert second.tries == 2, "a node that was launched before the failure does not show that the class is good now"

    launched.ledger.end_back_off(DEFAULT, second.until + 5, "")
    launched.now += timedelta(minutes=10)
    third = launched.ledger.back_off(DEFAULT, "of something", at(launched), launched=at(launched) - 5)
    assert third.tries == 1


@pytest.mark.parametrize(
    ("ready", "waits"), [("ami-arm64", [0, 0, 0, 0]), ("ami-amd64", [0, 60, 120, 240])], ids=["its image", "another"]
)
def test_only_a_ready_node_with_the_image_of_the_dead_ones_ends_their_count(
    launched: SimulatedCluster, ready: str, waits: list[int]
) -> None:
    """The class of both images may launch good nodes of one architecture between those that die."""
    found: list[int] = []
    for _ in range(4):
        for instance in launched.ec2.instances.values():
            instance["ImageId"] = "ami-arm64"
        die(launched, *KMS)
        for instance in launched.ec2.instances.values():
            instance["LaunchTime"] = launched.now - timedelta(seconds=1)
        launched.survey(f"s{len(found)}")
        wait = launched.ledger.back_offs(at(launched)).get(DEFAULT)
        found.append(wait.until - at(launched) if wait else 0)
        launched.now += timedelta(minutes=10)
        launched.ledger.end_back_off(DEFAULT, at(launched), ready)
        launch_again(launched)

    assert found == waits


def test_an_offering_whose_host_failed_is_not_asked_for_and_its_class_goes_on(launched: SimulatedCluster) -> None:
    die(launched, "Server.InternalError", "Server.InternalError: Internal error on launch")

    launched.survey("s1")

    marks = launched.ledger.unavailable(at(launched))
    assert {(mark.offering.capacity_type, mark.until - at(launched), mark.reason) for mark in marks} == {
        ("on-demand", 60, "Server.InternalError")
    }
    assert DEFAULT not in launched.ledger.back_offs(at(launched))


def test_a_host_that_failed_in_a_reservation_closes_this_reservation_only(launched: SimulatedCluster) -> None:
    die(launched, "Server.InternalError", "Server.InternalError: Internal error on launch")
    for instance in launched.ec2.instances.values():
        instance["CapacityReservationId"] = "cr-1"

    launched.survey("s1")

    marked = {mark.offering for mark in launched.ledger.unavailable(at(launched))}
    assert {(one.capacity_type, one.zone.partition("@")[2]) for one in marked} == {("reserved", "cr-1")}


@pytest.mark.parametrize(
    ("code", "after"),
    [
        ("Client.UserInitiatedShutdown", 5),
        ("Server.SpotInstanceTermination", 5),
        ("Client.InternalError", 3600),
        ("", 5),
    ],
    ids=["ended by a person", "interrupted", "after an hour", "without a reason"],
)
def test_other_ends_hold_nothing_back(launched: SimulatedCluster, code: str, after: int) -> None:
    die(launched, code, code)
    for instance in launched.ec2.instances.values():
        instance["LaunchTime"] = launched.now - timedelta(seconds=after)

    launched.survey("s1")

    assert launched.ledger.back_offs(at(launched)) == {}


def test_an_event_of_eventbridge_is_recorded_before_anything_is_started(cluster: SimulatedCluster) -> None:
    queue = QueueRun(cluster)
    queue.ended("shutting-down")
    cluster.ec2.instances[MINE] |= {
        "StateReason": dict(zip(("Code", "Message"), KMS, strict=True)),
        "LaunchTime": NOW - timedelta(seconds=5),
        "Tags": [{"Key": "karpenter.k8s.aws/ec2nodeclass", "Value": "default"}],
    }
    known: list[tuple[str, set[str]]] = []
    start = queue.states.start_execution

    def noting(**asked: Any) -> dict[str, Any]:
        noted = queue.retirements.of("default-a")
        known.append((noted.launch_failure if noted else "", set(cluster.ledger.back_offs(int(NOW.timestamp())))))
        return start(**asked)

    before = int(NOW.timestamp()) - 10
    assert cluster.ledger.back_off(DEFAULT, "of another instance", before, launched=before - 5).until == before
    queue.states.start_execution = noting  # type: ignore[method-assign] # the fake is the test's own
    assert queue.deliver(state_change("shutting-down")) == []

    assert [machine for machine, _ in queue.states.started] == ["retire", "scale-up"]
    assert len(known) == 2
    for reason, waits in known:
        assert reason.startswith(f"instance {MINE} ended at its launch: Client.InternalError")
        assert waits == {DEFAULT}


def test_claim_and_pool_get_the_reason_of_the_failed_launch(launched: SimulatedCluster) -> None:
    first, second = die(launched, *KMS)
    _, found = launched.survey("s1")
    assert {each["reason"] for each in found["retire"]} == {"lost"}
    table = (launched.ledger._client, launched.ledger._table)
    beginning = begin_retirement.RetirementStart(
        launched.kube, launched.ledger, Retirements(*table), Disruptions(*table), AutoscalerDetection(launched.kube)
    )
    task = Task(Execution("retire-1", arn("retire-1"), ""), CLUSTER, 0, 1)
    beginning.answer(
        task,
        [RetirementRequest(each["claim"], RetirementReason.LOST, each["instance"]) for each in found["retire"]],
        launched.now,
        2**33,
    )

    conditions = [
        condition
        for claim in launched.kube.all(kinds.NODECLAIMS)
        for condition in claim["status"]["conditions"]
        if condition["type"] == "Registered"
    ]
    assert {(each["status"], each["reason"]) for each in conditions} == {("False", "InstanceEndedAtLaunch")}
    assert sorted(each["message"].split(" ended")[0] for each in conditions) == [
        f"instance {first}",
        f"instance {second}",
    ]
    events = [each for each in launched.kube.all(kinds.EVENTS) if each["reason"] == "InstanceEndedAtLaunch"]
    kinds_of_objects = sorted(each["regarding"]["kind"] for each in events)
    assert kinds_of_objects == ["NodeClaim", "NodeClaim", "NodePool"]  # one of the pool for each reason
    assert all("Client.InternalError: Client error on launch" in each["note"] for each in events)


def test_a_class_with_a_back_off_launches_nothing_and_its_pods_get_the_reason(launched: SimulatedCluster) -> None:
    launched.ledger.back_off(DEFAULT, "instance i-1 ended at its launch: Client.VolumeLimitExceeded", at(launched))
    queue = hold_class_back(CLASS, launched.ledger.back_offs(at(launched)))

    assert not queue.ready
    (problem,) = queue.problems
    assert (problem.condition, problem.reason) == ("ValidationSucceeded", "InstancesEndAtLaunch")
    assert problem.message == (
        "nothing is launched until 12:01:00 UTC, because launches failed once: instance i-1 ended at its "
        "launch: Client.VolumeLimitExceeded"
    )
    assert hold_class_back(CLASS, launched.ledger.back_offs(at(launched) + 61)) == CLASS


def test_the_remedy_names_what_a_person_can_do() -> None:
    facts: Any = {"ended": True, "launched_at": NOON, "tags": {"karpenter.k8s.aws/ec2nodeclass": "gpu"}, "now": NOON}
    codes = {
        "Client.VolumeLimitExceeded": "Service Quotas",
        "Client.InvalidSnapshot.NotFound": "snapshot",
        "Client.InvalidKMSKey.InvalidState": "kmsKeyID",
        "Client.InstanceInitiatedShutdown": "userData",
        "Client.Unheard": ". Check the message",
    }
    for code, remedy in codes.items():
        found = find_launch_failure("i-1", code=code, message="", **facts)
        assert found is not None
        assert found.scope == "class#v1#gpu"
        assert remedy in found.explanation


@pytest.mark.parametrize(
    ("reason", "condition", "cause"),
    [
        (RetirementReason.LOST, "InstanceEnded", "ended before its node registered"),
        (RetirementReason.IMPAIRED, "InstanceImpaired", "status checks of instance"),
        (RetirementReason.NEVER_JOINED, "RegistrationTimeout", "did not register in 15 minutes"),
    ],
)
def test_a_claim_whose_instance_failed_while_it_booted_has_the_cause_and_counts_once_for_its_pool(
    launched: SimulatedCluster, reason: RetirementReason, condition: str, cause: str
) -> None:
    names = sorted(each["metadata"]["name"] for each in launched.kube.all(kinds.NODECLAIMS))

    for _ in range(2):
        RetirementExecution(launched, f"retire-{reason}").run(
            *(RetirementRequest(name, reason) for name in names), passes=0
        )

    for name in names:
        (registered,) = [
            each
            for each in launched.kube.get(kinds.NODECLAIMS, name)["status"]["conditions"]
            if each["type"] == "Registered"
        ]
        assert (registered["status"], registered["reason"]) == ("False", condition)
        assert cause in registered["message"] and "\n" not in registered["message"]
    assert launched.kube.get(kinds.NODEPOOLS, "default")["status"]["lastRegistrations"] == [condition] * 2
    noted = [each["regarding"]["name"] for each in launched.kube.all(kinds.EVENTS) if each["reason"] == condition]
    assert sorted(noted) == names
