"""A node class that is deleted stays until its claims are gone, and its events name them."""

from datetime import timedelta
from typing import Any

import pytest

from functions.install_manifests.object_release import release_objects
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import delete_claim, list_claims
from joiner.names import CLASS_FINALIZER
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending


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
    notes = [event["note"] for event in running.kube.all(kinds.EVENTS) if event["reason"] == "NodeClaimsExist"]
    assert notes == [
        f"it is being deleted and stays until its claim is gone: NodeClaim/{claim['metadata']['name']}. Until then its "
        "pools launch nothing: name another class in them, and delete the claims"
    ]
    assert surveyed["unsettledClasses"] == 1  # the pool's condition


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
    assert {each["type"]: each["status"] for each in node_class(running)["status"]["conditions"]}["Ready"] == "True"
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


def test_an_empty_node_stays_while_the_class_of_its_pool_cannot_launch_another(running: SimulatedCluster) -> None:
    for pod in running.kube.all(kinds.PODS):
        running.kube.delete(kinds.PODS, pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
    running.now += timedelta(minutes=2)
    assert [each["reason"] for each in running.survey("s1")[0]["retire"]] == ["empty"]

    running.kube.delete(kinds.EC2NODECLASSES, node_class(running)["metadata"]["name"])
    running.now += timedelta(minutes=2)

    assert running.survey("s2")[0]["retire"] == []


def test_the_removal_of_joiner_releases_the_classes(running: SimulatedCluster) -> None:
    release_objects(running.kube)

    assert "finalizers" not in node_class(running)["metadata"]
