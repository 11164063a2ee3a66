"""What the installer removes from claims and nodes when the stack is deleted, so that nothing waits for Joiner."""

from typing import Any

import pytest

from functions.install_manifests.object_release import release_objects
from joiner.adapters.kube_kinds import MACHINES, NODECLAIMS, NODES, Kind
from tests.unit.functions.fake_kube import FakeKube

OURS = "karpenter.sh/termination"


def claim(kind: Kind, name: str, *finalizers: str, owner: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "finalizers": list(finalizers),
        "ownerReferences": [{"kind": owner, "name": "default", "uid": "1"}],
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {}}


def node(
    name: str, *taints: str, owner: str | None = "NodeClaim", finalizers: tuple[str, ...] = (OURS,)
) -> dict[str, Any]:
    owners = [{"kind": owner, "name": name, "uid": "1"}] if owner else []
    metadata = {
        "name": name,
        "finalizers": list(finalizers),
        "ownerReferences": owners,
        "labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "x"},
    }
    spec = {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}


@pytest.fixture
def kube() -> FakeKube:
    fake = FakeKube()
    fake.put(claim(NODECLAIMS, "a", OURS, "example.com/other", owner="NodePool"))
    fake.put(claim(MACHINES, "b", OURS, owner="Provisioner"))
    return fake


def test_claims_lose_our_finalizer_and_their_pool_as_owner_and_stay(kube: FakeKube) -> None:
    assert release_objects(kube) == 2

    kept = kube.get(NODECLAIMS, "a")["metadata"]
    assert kept["finalizers"] == ["example.com/other"]
    assert not kept.get("ownerReferences")
    assert not kube.get(MACHINES, "b")["metadata"].get("finalizers")
    assert release_objects(kube) == 0


def test_nodes_open_and_owe_joiner_nothing(kube: FakeKube) -> None:
    kube.put(node("filled", "joiner.dev/filling", "team"))
    kube.put(node("drained", "karpenter.sh/disrupted"))

    release_objects(kube)

    for name, taints in (("filled", ["team"]), ("drained", [])):
        manifest = kube.get(NODES, name)
        assert not manifest["metadata"].get("finalizers")
        assert not manifest["metadata"].get("ownerReferences")
        assert [each["key"] for each in manifest["spec"].get("taints") or ()] == taints
    excluded = "node.kubernetes.io/exclude-from-external-load-balancers"
    assert excluded in kube.get(NODES, "filled")["metadata"]["labels"]  # another owner's
    assert excluded not in kube.get(NODES, "drained")["metadata"]["labels"]


@pytest.mark.parametrize("pool", ["karpenter.sh/nodepool", "karpenter.sh/provisioner-name"])
def test_a_node_that_has_not_registered_loses_the_taints_that_it_starts_with(kube: FakeKube, pool: str) -> None:
    made = node("booting", "joiner.dev/filling", "team", owner=None, finalizers=())
    made["metadata"]["labels"] = {pool: "default"}
    made["spec"]["taints"].append({"key": "karpenter.sh/unregistered", "effect": "NoExecute"})
    kube.put(made)

    release_objects(kube)

    assert [each["key"] for each in kube.get(NODES, "booting")["spec"]["taints"]] == ["team"]
    assert release_objects(kube) == 0


def test_foreign_nodes_are_not_touched(kube: FakeKube) -> None:
    kube.put(node("foreign", "karpenter.sh/disrupted", owner=None, finalizers=()))
    before = kube.get(NODES, "foreign")

    release_objects(kube)

    assert kube.get(NODES, "foreign") == before
