"""The status that is written to claims, pools and classes."""

from dataclasses import dataclass, replace
from typing import Any

from joiner.cluster import Resources
from joiner.lifecycle.declared_status import StatusPatch, find_status_patch
from joiner.lifecycle.launched_claims import launched_claim
from joiner.lifecycle.node_deadlines import INITIALIZATION
from joiner.lifecycle.pool_usage import usage_patches
from joiner.pools import InvalidManifest, NodeClassProblem, NodeClassRef, NodePool, ResolvedNodeClass
from tests.unit.lifecycle.joining_nodes import NOON, claim

POOL = NodePool("default", NodeClassRef("EC2NodeClass", "default"), generation=2)
CLASS = ResolvedNodeClass("default", "EC2NodeClass", generation=1)


def manifest(kind: str, name: str, status: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "generation": 1}, "status": status or {}}


def status_patches(manifests: list[dict[str, Any]], **known: Any) -> list[StatusPatch]:
    found = (find_status_patch(each, **known) for each in manifests)
    return [patch for patch in found if patch is not None]


def conditions(changes: Any) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in changes["status"]["conditions"]}


@dataclass(frozen=True)
class FleetInstance:
    """One instance in the response of a fleet."""

    instance_id: str = "i-9"
    image_id: str = "ami-9"
    instance_type: str = "m5.large"
    zone: str = "us-east-1b"
    capacity_type: str = "spot"
    price_per_hour: float | None = 0.0359


def test_a_launched_claim_has_its_instance_its_price_and_its_types_labels() -> None:
    fresh = claim(provider_id="", labels={"karpenter.sh/nodepool": "default"})

    after = launched_claim(
        fresh,
        FleetInstance(),
        labels={"karpenter.k8s.aws/instance-family": "m5"},
        capacity=Resources.of(cpu=2),
        allocatable=None,
        at=NOON,
    )

    assert after.provider_id == "aws:///us-east-1b/i-9"
    assert after.annotations["joiner.dev/price-per-hour"] == "0.0359"
    assert (after.instance_type, after.zone, after.capacity_type) == ("m5.large", "us-east-1b", "spot")
    assert after.labels["karpenter.k8s.aws/instance-family"] == "m5"
    assert after.capacity == Resources.of(cpu=2)
    assert after.launched and not after.registered


def test_a_claim_that_waits_for_its_node_names_the_instance_and_the_deadline() -> None:
    after = launched_claim(claim(provider_id=""), FleetInstance(), labels={}, capacity=None, allocatable=None, at=NOON)

    message = (
        "instance i-9 has not joined the cluster yet; it is given up if that has not happened by 2026-11-21T12:15:00Z"
    )
    assert after.conditions["Registered"].message == message
    assert after.conditions["Ready"].message == f"Registered: {message}"

    joined = after.as_registered("ip-1", at=NOON, opens_by=NOON + INITIALIZATION)
    message = (
        "node ip-1 has joined and is not ready for all of its pods yet; if it is not by 2026-11-21T12:15:00Z, no more "
        "pods are planned for it, and it is removed when it is empty"
    )
    assert joined.conditions["Ready"].message == f"Initialized: {message}"
    assert joined.as_initialized(at=NOON).conditions["Ready"].true


def test_a_pool_has_what_its_launched_claims_have() -> None:
    mine = claim("default-a", capacity=Resources.of(cpu=2, memory="8Gi"))
    unlaunched, other = claim("default-b", provider_id="", capacity=Resources.of(cpu=64)), claim("x-a", pool="x")

    ((pool, changes),) = usage_patches([POOL], [mine, unlaunched, other])

    assert (pool.name, changes) == ("default", {"status": {"resources": {"cpu": "2", "memory": "8Gi"}, "nodes": 1}})


def test_a_pool_whose_numbers_stand_is_not_written() -> None:
    standing = replace(POOL, used=Resources.of(cpu=2))

    assert usage_patches([standing], [claim(capacity=Resources.of(cpu=2))]) == []


def test_a_pool_that_has_nothing_any_more_shows_zero() -> None:
    ((_, changes),) = usage_patches([replace(POOL, used=Resources.of(cpu=2))], [])

    assert changes == {"status": {"resources": {"cpu": "0"}, "nodes": 0}}


def test_good_pools_and_classes_become_ready_and_are_then_left_alone() -> None:
    manifests = [manifest("NodePool", "default"), manifest("EC2NodeClass", "default")]
    known: dict[str, Any] = {"pools": {POOL.key: POOL}, "classes": {CLASS.key: CLASS}, "problems": (), "at": NOON}

    pool, node_class = status_patches(manifests, **known)

    assert conditions(pool.changes)["Ready"] == conditions(node_class.changes)["Ready"] == ("True", "Ready")
    after = [manifest(each.kind, each.name, dict(each.changes["status"])) for each in (pool, node_class)]
    assert status_patches(after, **known) == []


def test_a_pool_without_a_count_of_nodes_gets_zero_and_one_with_a_count_keeps_it() -> None:
    known: dict[str, Any] = {"pools": {POOL.key: POOL}, "classes": {CLASS.key: CLASS}, "at": NOON}
    broken = InvalidManifest("Provisioner/broken", "spec.limits.resoutces", "{cpu: 1}", "there is no such field")
    new = [manifest("NodePool", "default"), manifest("Provisioner", "broken")]

    patches = status_patches(new, problems=[broken], **known)

    assert [each.changes["status"]["nodes"] for each in patches] == [0, 0]
    uncounted, counted = (
        dict(patches[0].changes["status"]),
        {**patches[0].changes["status"], "nodes": 3, "conditions": []},
    )
    del uncounted["nodes"]
    (again,) = status_patches([manifest("NodePool", "default", uncounted)], problems=(), **known)
    (later,) = status_patches([manifest("NodePool", "default", counted)], problems=(), **known)
    assert (again.changes["status"]["nodes"], "nodes" in later.changes["status"]) == (0, False)


def test_a_class_without_subnets_reports_it_and_its_pool_reports_why_it_waits() -> None:
    refused = CLASS.with_problems(
        [NodeClassProblem("SubnetsReady", "SubnetsNotFound", "no subnet has tag x: tag them")]
    )

    pool, node_class = status_patches(
        [manifest("NodePool", "default"), manifest("EC2NodeClass", "default")],
        pools={POOL.key: POOL},
        classes={refused.key: refused},
        problems=(),
        at=NOON,
    )

    assert conditions(node_class.changes)["SubnetsReady"] == ("False", "SubnetsNotFound")
    assert conditions(pool.changes)["NodeClassReady"] == ("False", "SubnetsNotFound")


def test_a_pool_that_cannot_be_read_is_reported_in_its_own_status() -> None:
    problem = InvalidManifest("Provisioner/broken", "spec.limits.resoutces", "{cpu: 1}", 'did you mean "resources"?')

    (patch,) = status_patches([manifest("Provisioner", "broken")], pools={}, classes={}, problems=[problem], at=NOON)

    (validation,) = [each for each in patch.changes["status"]["conditions"] if each["type"] == "ValidationSucceeded"]
    assert validation["status"] == "False"
    assert 'did you mean "resources"?' in validation["message"]
    assert conditions(patch.changes)["Ready"][0] == "False"


def test_a_class_that_no_pool_names_is_left_alone() -> None:
    assert status_patches([manifest("EC2NodeClass", "spare")], pools={}, classes={}, problems=(), at=NOON) == []


def test_the_outcomes_of_registrations_end_with_a_change_of_the_pool_or_of_its_class() -> None:
    known: dict[str, Any] = {"pools": {POOL.key: POOL}, "classes": {CLASS.key: CLASS}, "problems": (), "at": NOON}
    (fresh,) = status_patches([manifest("NodePool", "default")], **known)
    assert conditions(fresh.changes)["NodeRegistrationHealthy"] == ("Unknown", "NoRegistrations")

    unhealthy = {**fresh.changes["status"], "lastRegistrations": ["RegistrationTimeout", "RegistrationTimeout"]}
    (patch,) = status_patches([manifest("NodePool", "default", unhealthy)], **known)
    assert conditions(patch.changes)["NodeRegistrationHealthy"] == ("False", "RegistrationTimeout")
    assert conditions(patch.changes)["Ready"] == ("True", "Ready")

    standing = manifest("NodePool", "default", {**unhealthy, **patch.changes["status"]})
    for changed in (
        {"pools": {POOL.key: replace(POOL, generation=3)}},
        {"classes": {CLASS.key: replace(CLASS, generation=2)}},
    ):
        (after,) = status_patches([standing], **known | changed)
        assert conditions(after.changes)["NodeRegistrationHealthy"] == ("Unknown", "NoRegistrations")
        assert after.changes["status"]["lastRegistrations"] == []
