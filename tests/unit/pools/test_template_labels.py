"""Labels of a pool's template that the instance decides are requirements; so are they on a Provisioner."""

from typing import Any

import pytest

from joiner.pools import NodePool, read_manifests
from joiner.pools.drift_hashes import build_hash_annotations

ARCH, OLD_ARCH = "kubernetes.io/arch", "beta.kubernetes.io/arch"
EC2_CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def manifest(kind: str, labels: dict[str, str], requirements: Any = ()) -> dict[str, Any]:
    node = {"requirements": list(requirements)}
    spec: dict[str, Any] = (
        {**node, "labels": labels, "providerRef": {"name": "default"}}
        if kind == "Provisioner"
        else {"template": {"metadata": {"labels": labels}, "spec": {**node, "nodeClassRef": EC2_CLASS}}}
    )
    return {"kind": kind, "metadata": {"name": "web"}, "spec": spec}


def only_pool(kind: str, labels: dict[str, str], requirements: Any = ()) -> NodePool:
    (pool,) = read_manifests([manifest(kind, labels, requirements)]).pools
    return pool


def mistakes(kind: str, labels: dict[str, str], requirements: Any = ()) -> list[tuple[str, str, str]]:
    """Return field, remedy and severity of what is wrong with the labels and requirements."""
    found = read_manifests([manifest(kind, labels, requirements)]).problems
    return [(one.field, one.remedy, one.severity) for one in found if "labels" in one.field or "require" in one.field]


def one_of(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


@pytest.mark.parametrize("kind", ["NodePool", "Provisioner"])
@pytest.mark.parametrize("key", [ARCH, OLD_ARCH])
def test_a_label_that_the_instance_decides_is_a_requirement_and_no_label(kind: str, key: str) -> None:
    pool = only_pool(kind, {key: "arm64", "team": "web"}, [one_of(ARCH, "arm64", "amd64")])

    assert (list(pool.requirements[ARCH]), pool.labels) == (["arm64"], {"team": "web"})
    path = "spec.labels" if kind == "Provisioner" else "spec.template.metadata.labels"
    assert pool.requirement_field(ARCH) == f"{path}[{key}]"


@pytest.mark.parametrize(
    ("kind", "path"), [("NodePool", "spec.template.metadata.labels"), ("Provisioner", "spec.labels")]
)
@pytest.mark.parametrize(("key", "name"), [(ARCH, ARCH), (OLD_ARCH, ARCH), ("team", "team")])
def test_a_label_that_a_requirement_excludes_makes_the_pool_invalid(kind: str, path: str, key: str, name: str) -> None:
    why = f"no node can have it, because the pool also requires {name} In [x]: change one of them"

    assert mistakes(kind, {key: "y"}, [one_of(name, "x")]) == [(f"{path}[{key}]", why, "error")]
    assert read_manifests([manifest(kind, {key: "y"}, [one_of(name, "x")])]).pools == ()


def test_the_old_and_the_new_name_of_a_label_must_have_one_value() -> None:
    why = f"no node can have it, because the pool also requires {ARCH} In [arm64]: change one of them"

    assert mistakes("NodePool", {ARCH: "arm64", OLD_ARCH: "amd64"}) == [
        (f"spec.template.metadata.labels[{OLD_ARCH}]", why, "error")
    ]
    assert mistakes("NodePool", {ARCH: "arm64", OLD_ARCH: "arm64"}) == []


def test_a_requirement_that_contradicts_itself_is_reported_once() -> None:
    found = mistakes("NodePool", {ARCH: "arm64"}, [one_of(ARCH, "arm64"), one_of(ARCH, "amd64")])

    assert [field for field, _, _ in found] == [f"spec.template.spec.requirements[{ARCH}]"]


def test_every_label_of_a_template_counts_for_drift() -> None:
    digests = [
        build_hash_annotations(only_pool("NodePool", labels), None)["karpenter.sh/nodepool-hash"]
        for labels in ({}, {ARCH: "amd64"}, {ARCH: "arm64"}, {"team": "amd64"})
    ]

    assert len(set(digests)) == 4


@pytest.mark.parametrize(
    ("kind", "annotation", "digest"),
    [
        ("NodePool", "karpenter.sh/nodepool-hash", "56d4a18c584a0447"),
        ("Provisioner", "karpenter.sh/provisioner-hash", "2c94f7d369fddd25"),
    ],
)
def test_a_pool_has_the_digest_that_it_had_when_all_labels_of_its_template_were_equal(
    kind: str, annotation: str, digest: str
) -> None:
    """Nodes that were launched before have these digests: another one would replace all of them."""
    labels = {"team": "web", ARCH: "arm64", "topology.kubernetes.io/region": "us-east-1"}

    assert build_hash_annotations(only_pool(kind, labels), None)[annotation] == digest


@pytest.mark.parametrize(
    ("labels", "reported"),
    [
        ({ARCH: "arm64", "team": "a"}, {"{kubernetes.io/arch: arm64}"}),
        ({"topology.kubernetes.io/zone": "us-east-1a", "karpenter.k8s.aws/instance-tenancy": "dedicated"}, set()),
    ],
)
def test_a_standalone_claim_reports_labels_that_its_instance_decides(
    labels: dict[str, str], reported: set[str]
) -> None:
    spec = {"nodeClassRef": EC2_CLASS, "requirements": [one_of("topology.kubernetes.io/zone", "us-east-1a")]}
    mine = {"kind": "NodeClaim", "metadata": {"name": "mine", "labels": labels}, "spec": spec}

    found = [one for one in read_manifests([mine]).problems if one.field == "metadata.labels"]

    assert {one.value for one in found} == reported
    assert {one.severity for one in found} <= {"warning"}
