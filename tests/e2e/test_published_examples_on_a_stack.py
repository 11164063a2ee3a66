"""Karpenter's published examples as objects of one cluster: each gives nodes whose pods run, or has a condition with
the true reason.

All are applied together. Each pool has a taint and a label of its own, so that its workload runs on its nodes only. The
API server validates the manifests by the CRDs and the admission policies.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any, Final

import pytest

from joiner_local.control_plane.kube_api import ApiError, Object
from joiner_local.demo.change_watch import WatchTimeout, until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import PAUSE
from tests.published_examples import EXAMPLES, Example, example, node_class

pytestmark = pytest.mark.e2e

LABEL: Final = "published-example"
CLASSES: Final = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
POOLS: Final = "/apis/karpenter.sh/v1/nodepools"

AL2: Final = "AWS has no AL2 images from Kubernetes 1.33 on"
REFUSED: Final[Mapping[str, str]] = {
    "AL2": AL2,
    "AL2 with own user data": AL2,
    "a custom family": "spec.amiSelectorTerms: no image has image-id ",
    "a release older than the cluster": "AWS has no AL2023 image of this release for Kubernetes 1.36",
}
"""Examples that no cluster of this version accepts, and the reason in the condition of their class."""

OLD_RELEASE: Final = {"a release older than the cluster": example(of=node_class("al2023@v20240807"))}
SHORT: Final = ("general purpose", "Bottlerocket", "Windows 2022", "several volumes", "GPUs", "a custom family")


@pytest.fixture
def empty(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    yield deployed
    deployed.clean()


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def alone(name: str, published: Example) -> list[Object]:
    """Return the example's objects under names of their own, on nodes that no other example uses."""
    pool, of, workload = (dict(deepcopy(each)) for each in (published.pool, published.node_class, published.workload))
    own = slug(name)
    pool["metadata"] = of["metadata"] = {"name": own}
    nodes = pool["spec"]["template"]
    nodes["metadata"] = {"labels": {LABEL: own}}
    nodes["spec"]["nodeClassRef"]["name"] = own
    nodes["spec"]["taints"] = [{"key": LABEL, "value": own, "effect": "NoSchedule"}]
    workload["metadata"] = {"name": own, "namespace": "default"}
    workload["spec"]["selector"] = {"matchLabels": {"app": own}}
    template = workload["spec"]["template"]
    template["metadata"] = {"labels": {"app": own}}
    pods: dict[str, Any] = template["spec"]
    pods["terminationGracePeriodSeconds"] = 0
    pods["nodeSelector"] = {**pods.get("nodeSelector", {}), LABEL: own}
    pods["tolerations"] = [{"key": LABEL, "operator": "Equal", "value": own, "effect": "NoSchedule"}]
    for container in pods["containers"]:
        container["image"] = PAUSE
    return [of, pool, workload]


def apply(actor: Actor, chosen: Mapping[str, Example]) -> None:
    actor.create(*(each for name, published in chosen.items() for each in alone(name, published)))


def unready(actor: Actor, names: Sequence[str]) -> dict[str, str]:
    """Return the message of the condition Ready of each of these classes that is not ready."""
    found: dict[str, str] = {}
    for name in names:
        conditions = actor.world.kube.get(f"{CLASSES}/{slug(name)}").get("status", {}).get("conditions", ())
        ready = next((each for each in conditions if each["type"] == "Ready"), {"status": "Unknown"})
        if ready["status"] == "False":
            found[name] = str(ready["message"])
    return found


def waiting(actor: Actor, names: Sequence[str], replicas: int) -> dict[str, str]:
    """Return what the pods of each example wait for; nothing for examples whose pods all run."""
    return {
        name: f"{actor.running(slug(name))} pods run; class: {unready(actor, [name])}; "
        f"pool: {conditions_of(actor, name)}; notes: {notes_of(actor, name)[-3:]}"
        for name in names
        if actor.running(slug(name)) < replicas
    }


def conditions_of(actor: Actor, name: str) -> list[str]:
    conditions = actor.world.kube.get(f"{POOLS}/{slug(name)}").get("status", {}).get("conditions", ())
    return [f"{each['type']}={each['status']} {each['message']}" for each in conditions if each["type"] == "Ready"]


def registration_of(actor: Actor, name: str) -> tuple[str, str]:
    """Return status and reason of the pool's condition about its last launched nodes."""
    conditions = actor.world.kube.get(f"{POOLS}/{slug(name)}")["status"]["conditions"]
    return next((each["status"], each["reason"]) for each in conditions if each["type"] == "NodeRegistrationHealthy")


def notes_of(actor: Actor, name: str) -> list[str]:
    return [str(each["note"]) for each in actor.events() if slug(name) in each["regarding"]["name"]]


def check(actor: Actor, chosen: Mapping[str, Example], *, limit: float) -> None:
    """Apply these examples together; assert that each gives nodes or is refused with its reason."""
    refused = {name: reason for name, reason in REFUSED.items() if name in chosen}
    accepted = [name for name in chosen if name not in refused]
    apply(actor, chosen)

    until(lambda: len(unready(actor, list(refused))) == len(refused), what="the refused classes reported", limit=limit)
    try:
        until(lambda: not waiting(actor, accepted, 3), what="the pods of all accepted examples running", limit=limit)
    except Exception as late:
        raise AssertionError(waiting(actor, accepted, 3)) from late

    assert unready(actor, accepted) == {}
    reasons = unready(actor, list(refused))
    assert {name: reasons[name] for name in refused if refused[name] not in reasons[name]} == {}
    owners = {str(node["metadata"]["labels"].get(LABEL)) for node in actor.nodes()}
    assert owners == {slug(name) for name in accepted}
    assert all(actor.running(slug(name)) == 0 for name in refused)
    expected = {name: ("Unknown", "NoRegistrations") if name in refused else ("True", "Registered") for name in chosen}
    with suppress(WatchTimeout):  # nodes open after their pods run; the assertion shows what is missing
        until(lambda: {name: registration_of(actor, name) for name in chosen} == expected, what="them", limit=limit)
    assert {name: registration_of(actor, name) for name in chosen} == expected


def test_some_published_examples_give_nodes_as_objects_of_a_cluster(empty: Actor) -> None:
    check(empty, {name: EXAMPLES[name] for name in SHORT}, limit=90)


@pytest.mark.long("the six examples of the test before")
def test_all_published_examples_give_nodes_or_are_refused_with_the_true_reason(empty: Actor) -> None:
    check(empty, {**EXAMPLES, **OLD_RELEASE}, limit=200)


def test_the_api_server_refuses_a_pool_whose_class_has_another_kind(empty: Actor) -> None:
    _, pool, _ = alone("a wrong kind", EXAMPLES["general purpose"])
    pool["spec"]["template"]["spec"]["nodeClassRef"]["kind"] = "NodeClass"

    with pytest.raises(ApiError, match=r"use the group karpenter\.k8s\.aws and the kind EC2NodeClass"):
        empty.create(pool)
