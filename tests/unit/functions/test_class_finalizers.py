"""A node class that is deleted stays until its claims are gone, and its events name them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from functions.install_manifests.object_release import release_objects
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import delete_claim, list_claims
from joiner.adapters.kube_errors import Forbidden
from joiner.names import CLASS_FINALIZER
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import NODECLASS, pending


def node_class(cluster: SimulatedCluster) -> dict[str, Any]:
    (found,) = cluster.kube.all(kinds.EC2NODECLASSES)
    return found


@pytest.fixture
def running(cluster: SimulatedCluster) -> SimulatedCluster:
    """One node runs."""
    cluster.prepare(pending("web-1"))
    cluster.scale_up("up-1")
    return cluster


def test_a_class_gets_the_finalizer_with_its_first_claim(running: SimulatedCluster) -> None:
    assert node_class(running)["metadata"]["finalizers"] == [CLASS_FINALIZER]


def test_a_deleted_class_stays_while_it_has_a_claim_and_its_event_names_the_claim(running: SimulatedCluster) -> None:
    running.kube.delete(kinds.EC2NODECLASSES, node_class(running)["metadata"]["name"])
    (claim,) = running.kube.all(kinds.NODECLAIMS)

    surveyed, _ = running.survey("s1")

    assert node_class(running)["metadata"]["finalizers"] == [CLASS_FINALIZER]
    running.survey("s2")
    assert notes_of(running, "EC2NodeClass") == [
        f"WaitingOnNodeClaimTermination: it is being deleted and stays until its claim is gone: "
        f"NodeClaim/{claim['metadata']['name']}. Until then its pools launch nothing: name another class in them, and "
        "delete the claims"
    ]
    assert notes_of(running, "NodePool") == [
        "NodeClassTerminating: EC2NodeClass/default is being deleted and waits for its 1 claim: nothing is launched; "
        "name another class in the pool, or create it again after that"
    ]
    assert surveyed["unsettledClasses"] == 2  # the conditions of the pool and of the class


def notes_of(cluster: SimulatedCluster, kind: str) -> list[str]:
    """Return reason and text of the warnings about objects of a kind; each names its object by its uid."""
    objects = [*cluster.kube.all(kinds.EC2NODECLASSES), *cluster.kube.all(kinds.NODEPOOLS)]
    uids = {each["metadata"]["uid"] for each in objects}
    found = [each for each in cluster.kube.all(kinds.EVENTS) if each["regarding"]["kind"] == kind]
    assert {each["regarding"]["uid"] for each in found} <= uids
    return [f"{each['reason']}: {each['note']}" for each in found if each["type"] == "Warning"]


def test_the_pool_of_a_deleted_class_names_the_deletion_and_then_the_absence(running: SimulatedCluster) -> None:
    name = node_class(running)["metadata"]["name"]
    assert condition_of_the_class(running)[0] == "NodeClassReady"
    running.kube.delete(kinds.EC2NODECLASSES, name)
    running.resolves = False

    running.scale_up("up-2")

    assert condition_of_the_class(running) == (
        "NodeClassTerminating",
        f"EC2NodeClass/{name} is being deleted and waits for its 1 claim: nothing is launched; name another class in "
        "the pool, or create it again after that",
    )
    ready = {each["type"]: each for each in node_class(running)["status"]["conditions"]}["Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "NodeClassTerminating")
    assert ready["message"].startswith("it is being deleted: nothing is launched")
    assert running.survey("s1")[0]["unsettledClasses"] == 0

    for claim in list_claims(running.kube).claims:
        delete_claim(running.kube, claim)
    for number in (3, 4):
        running.scale_up(f"up-{number}")

    assert running.kube.all(kinds.EC2NODECLASSES) == []
    assert condition_of_the_class(running) == (
        "NodeClassNotFound",
        f"EC2NodeClass/{name} does not exist: create it, or name another class in the pool",
    )
    assert running.survey("s2")[0]["unsettledClasses"] == 0


def condition_of_the_class(running: SimulatedCluster) -> tuple[str, str]:
    (pool,) = running.kube.all(kinds.NODEPOOLS)
    found = next(each for each in pool["status"]["conditions"] if each["type"] == "NodeClassReady")
    return found["reason"], found["message"]


def test_a_deleted_class_goes_after_its_last_claim_by_a_scale_up_that_a_sweep_starts(running: SimulatedCluster) -> None:
    name = node_class(running)["metadata"]["name"]
    running.kube.delete(kinds.EC2NODECLASSES, name)
    for claim in list_claims(running.kube).claims:
        delete_claim(running.kube, claim)

    surveyed, _ = running.survey("s1")
    assert surveyed["unsettledClasses"] == 2  # the class, and the pool's condition
    running.scale_up("up-2")

    assert running.kube.all(kinds.EC2NODECLASSES) == []


BROKEN: dict[str, Any] = {**NODECLASS, "spec": {**NODECLASS["spec"], "amiSelectorTerms": [{"alias": "al2032@latest"}]}}
"""A class that has the types of the schema and that Joiner cannot use."""


@pytest.fixture
def without_class(cluster: SimulatedCluster) -> SimulatedCluster:
    """A pool whose class does not exist, and a pod that waits; the condition of the pool says so."""
    cluster.prepare(pending("web-1"))
    cluster.kube.delete(kinds.EC2NODECLASSES, "default")
    cluster.resolves = False
    cluster.scale_up("up-1")
    assert condition_of_the_class(cluster)[0] == "NodeClassNotFound"
    assert unsettled(cluster) == 0
    return cluster


def unsettled(cluster: SimulatedCluster) -> int:
    return int(cluster.survey(f"at-{cluster.now:%H%M%S}")[0]["unsettledClasses"])


def refuse_patches(cluster: SimulatedCluster, plural: str) -> None:
    """Let the API server refuse changes of these objects and of their status."""

    def refuse(method: str, path: str, answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if method == "PATCH" and f"/{plural}/" in path:
            raise Forbidden(f"{plural} may not be changed", status=403)
        return answer()

    cluster.kube.fault = refuse


def test_the_pool_of_a_new_class_that_is_not_valid_names_the_mistake(without_class: SimulatedCluster) -> None:
    without_class.kube.put(BROKEN)
    assert unsettled(without_class) == 1

    without_class.scale_up("up-2")

    reason, message = condition_of_the_class(without_class)
    assert reason == "NodeClassNotReady"
    assert message.startswith("EC2NodeClass/default is not valid: spec.amiSelectorTerms")
    assert unsettled(without_class) == 0


def test_the_scale_up_for_a_class_that_is_not_valid_finds_its_work_without_a_pending_pod(
    without_class: SimulatedCluster,
) -> None:
    without_class.kube.delete(kinds.PODS, "web-1", namespace="default")
    without_class.kube.put({**BROKEN, "status": {"conditions": [{"type": "Ready", "observedGeneration": 1}]}})

    without_class.scale_up("up-2")

    assert condition_of_the_class(without_class)[0] == "NodeClassNotReady"


def test_the_pool_follows_when_the_class_that_is_not_valid_is_mended_or_gone(without_class: SimulatedCluster) -> None:
    without_class.kube.put(BROKEN)
    without_class.scale_up("up-2")

    without_class.kube.put(NODECLASS)
    assert unsettled(without_class) == 1
    without_class.kube.put(BROKEN)
    assert unsettled(without_class) == 0
    without_class.kube.delete(kinds.EC2NODECLASSES, "default")
    without_class.now += timedelta(minutes=10)
    assert unsettled(without_class) == 1
    without_class.scale_up("up-3")

    assert condition_of_the_class(without_class)[0] == "NodeClassNotFound"
    assert unsettled(without_class) == 0


def test_a_class_that_is_not_valid_and_waits_for_its_claims_starts_one_scale_up(running: SimulatedCluster) -> None:
    running.kube.put({**BROKEN, "metadata": {**node_class(running)["metadata"], "generation": 2}})
    running.kube.delete(kinds.EC2NODECLASSES, "default")
    running.resolves = False
    assert unsettled(running) == 2  # the conditions of the pool and of the class

    running.scale_up("up-2")

    assert node_class(running)["metadata"]["deletionTimestamp"]
    reasons = {note.partition(":")[0] for note in notes_of(running, "EC2NodeClass")}
    assert reasons == {"WaitingOnNodeClaimTermination", "ValidationFailed"}
    reason, message = condition_of_the_class(running)
    assert reason == "NodeClassTerminating"
    assert message.startswith("EC2NodeClass/default is being deleted and waits for its 1 claim")
    assert unsettled(running) == 0


def test_the_pool_follows_when_the_mistake_of_its_class_becomes_another(without_class: SimulatedCluster) -> None:
    without_class.kube.put(BROKEN)
    without_class.scale_up("up-2")
    other = {**BROKEN, "spec": {**NODECLASS["spec"], "amiSelectorTerms": [{"alias": "al2031@latest"}]}}
    without_class.kube.put(other)
    without_class.now += timedelta(minutes=10)
    assert unsettled(without_class) == 1

    without_class.scale_up("up-3")

    reason, message = condition_of_the_class(without_class)
    assert reason == "NodeClassNotReady"
    assert "al2031@latest" in message
    assert unsettled(without_class) == 0


def test_a_condition_that_cannot_be_written_starts_a_scale_up_after_longer_and_longer_waits(
    without_class: SimulatedCluster,
) -> None:
    without_class.kube.put(BROKEN)
    refuse_patches(without_class, "nodepools")

    assert minutes_of_scale_ups(without_class, 37) == [0, 1, 3, 7, 15, 25, 35]
    assert condition_of_the_class(without_class)[0] == "NodeClassNotFound"

    without_class.kube.fault = None
    without_class.kube.delete(kinds.EC2NODECLASSES, "default")
    without_class.kube.put(NODECLASS)
    assert unsettled(without_class) == 1, "another state of the class is written at once"


def test_a_finalizer_that_cannot_be_removed_starts_a_scale_up_after_longer_and_longer_waits(
    running: SimulatedCluster,
) -> None:
    running.kube.delete(kinds.PODS, "web-1", namespace="default")
    running.kube.delete(kinds.EC2NODECLASSES, "default")
    running.resolves = False
    running.scale_up("up-2")
    for claim in list_claims(running.kube).claims:
        delete_claim(running.kube, claim)
    refuse_patches(running, "ec2nodeclasses")

    assert minutes_of_scale_ups(running, 10) == [0, 1, 3, 7]


def minutes_of_scale_ups(cluster: SimulatedCluster, minutes: int) -> list[int]:
    """Run a sweep each minute; return the minutes in which it started a scale-up for a class or a pool's condition."""
    found = []
    for minute in range(minutes):
        if unsettled(cluster):
            found.append(minute)
            assert cluster.scale_up(f"minute-{minute}")
        cluster.now += timedelta(minutes=1)
    return found


def test_an_empty_node_stays_while_the_class_of_its_pool_cannot_launch_another(running: SimulatedCluster) -> None:
    for pod in running.kube.all(kinds.PODS):
        running.kube.delete(kinds.PODS, pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
    running.now += timedelta(minutes=2)
    assert [each["reason"] for each in running.survey("s1")[0]["retire"]] == ["empty"]

    running.kube.delete(kinds.EC2NODECLASSES, node_class(running)["metadata"]["name"])
    running.now += timedelta(minutes=2)

    assert running.survey("s2")[0]["retire"] == []


def test_a_deleted_class_of_a_claim_is_not_ready_although_no_pool_names_it_any_more(running: SimulatedCluster) -> None:
    running.kube.delete(kinds.NODEPOOLS, "default")
    running.kube.delete(kinds.EC2NODECLASSES, "default")
    assert unsettled(running) == 1

    running.scale_up("up-2")

    conditions = {each["type"]: each["reason"] for each in node_class(running)["status"]["conditions"]}
    assert conditions["Ready"] == "NodeClassTerminating"
    assert unsettled(running) == 0


def test_the_removal_of_joiner_releases_the_classes(running: SimulatedCluster) -> None:
    release_objects(running.kube)

    assert "finalizers" not in node_class(running)["metadata"]
