"""Mistakes in manifests are reported with object, field, value and remedy; the other manifests are read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from joiner.pools import InvalidManifests, read_manifests, read_node_class, read_node_pool, read_overlays

MANIFESTS = Path(__file__).parent / "manifests"
MISTAKES: list[dict[str, Any]] = yaml.safe_load((MANIFESTS / "mistakes.yaml").read_text())


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case["mistake"])
def test_a_mistake_is_reported_with_field_and_remedy(case: dict[str, Any]) -> None:
    found = read_manifests([case["manifest"]])

    subject = f"{case['manifest']['kind']}/wrong"
    reported = [problem for problem in found.problems if problem.field == case["field"] and problem.severity == "error"]
    assert (found.pools, found.classes) == ((), ())
    assert [problem.object for problem in reported] == [subject]
    assert case["says"] in reported[0].remedy


CPU = "karpenter.k8s.aws/instance-cpu"
ABOVE = {"key": CPU, "operator": "Gt", "values": ["8"]}
BELOW = {"key": CPU, "operator": "Lt", "values": ["4"]}
OTHERS = [{"key": CPU, "operator": "NotIn", "values": ["16"]}, {"key": "kubernetes.io/arch", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("path", "kind", "wrap"),
    [
        ("spec.template.spec.requirements", "NodePool", lambda spec: {"template": {"spec": spec}}),
        ("spec.requirements", "Provisioner", lambda spec: spec),
        ("spec.requirements", "NodeClaim", lambda spec: spec),
    ],
)
def test_requirements_that_exclude_each_other_are_reported_as_they_are_written(
    path: str, kind: str, wrap: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    version = "karpenter.sh/v1alpha5" if kind == "Provisioner" else "karpenter.sh/v1"
    spec = wrap({"requirements": [OTHERS[0], ABOVE, BELOW, OTHERS[1]]})
    wrong = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}

    found = read_manifests([wrong])

    assert f"{path}[{CPU}] is Gt [8] and Lt [4]: they exclude each other: change or remove one" in [
        problem.message for problem in found.problems
    ]


def test_requirements_on_both_names_of_a_label_are_reported_with_these_names() -> None:
    keys = ("beta.kubernetes.io/arch", "kubernetes.io/arch")
    requirements = [{"key": key, "operator": "In", "values": [key[0]]} for key in keys]
    template = {"spec": {"requirements": requirements}}
    wrong = {"kind": "NodePool", "metadata": {"name": "a"}, "spec": {"template": template}}

    found = read_manifests([wrong])

    assert (
        "spec.template.spec.requirements[beta.kubernetes.io/arch] is beta.kubernetes.io/arch In [b] and "
        "kubernetes.io/arch In [k]: they exclude each other: change or remove one"
    ) in [problem.message for problem in found.problems]


def test_all_mistakes_of_an_object_are_reported_at_once() -> None:
    wrong = {
        "kind": "Provisioner",
        "metadata": {"name": "a"},
        "spec": {
            "weight": 500,
            "limits": {"resources": {"cpu": "many"}},
            "consolidation": {"enabled": "yes"},
            "providerRef": {"nam": "b"},
        },
    }

    with pytest.raises(InvalidManifests) as raised:
        read_node_pool(wrong)

    assert sorted(problem.field for problem in raised.value.problems) == [
        "spec.consolidation.enabled",
        "spec.limits.resources.cpu",
        "spec.providerRef.nam",
        "spec.providerRef.name",
        "spec.weight",
    ]


def test_an_invalid_pool_does_not_affect_the_others() -> None:
    good = {
        "kind": "Provisioner",
        "metadata": {"name": "good"},
        "spec": {"provider": {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}},
    }

    found = read_manifests([case["manifest"] for case in MISTAKES] + [good])

    assert [pool.key for pool in found.pools] == ["Provisioner/good"]
    assert [node_class.key for node_class in found.classes] == ["Inline/good"]


def test_a_pool_without_its_class_is_read_and_reported() -> None:
    pool = {"kind": "Provisioner", "metadata": {"name": "a"}, "spec": {"providerRef": {"name": "b"}}}

    found = read_manifests([pool])

    assert [one.key for one in found.pools] == ["Provisioner/a"]
    assert [str(problem) for problem in found.problems] == [
        (
            "Provisioner/a: spec.providerRef is AWSNodeTemplate/b: there is no such AWSNodeTemplate; create it or "
            "name another"
        )
    ]


@pytest.mark.parametrize(
    "spec", [None, [], "text", 3, {"requirements": "text", "taints": {}, "limits": 1, "labels": [1], "provider": []}]
)
def test_no_input_makes_a_reader_raise(spec: Any) -> None:
    for kind in ("NodePool", "Provisioner", "EC2NodeClass", "AWSNodeTemplate"):
        found = read_manifests([{"kind": kind, "metadata": {"name": "a"}, "spec": spec}])
        assert (found.pools, found.classes) == ((), ())
        assert found.problems


def test_another_version_of_a_kind_is_refused() -> None:
    with pytest.raises(InvalidManifests, match=r"apiVersion is karpenter.sh/v1beta1: use karpenter.sh/v1"):
        read_node_pool(
            {"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": {}}
        )


def test_a_kind_that_is_not_a_class_is_refused() -> None:
    with pytest.raises(InvalidManifests, match="use an EC2NodeClass"):
        read_node_class({"kind": "NodePool", "metadata": {"name": "a"}})


@pytest.mark.parametrize("amount", ["-1", -1, "-500m"])
def test_a_negative_limit_is_refused(amount: object) -> None:
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "a"},
        "spec": {
            "template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "b"}}},
            "limits": {"cpu": amount, "memory": "1Gi"},
        },
    }
    provisioner = {
        "kind": "Provisioner",
        "metadata": {"name": "a"},
        "spec": {"providerRef": {"name": "b"}, "limits": {"resources": {"cpu": amount}}},
    }

    for manifest, field in ((pool, "spec.limits.cpu"), (provisioner, "spec.limits.resources.cpu")):
        with pytest.raises(InvalidManifests) as raised:
            read_node_pool(manifest)
        assert [(one.field, one.value, one.remedy) for one in raised.value.problems] == [
            (field, str(amount), "give a quantity of at least zero")
        ]


@pytest.mark.parametrize(
    ("resource", "amount", "counted", "written"),
    [
        ("nodes", "1.5", "1", "1 or 2"),
        ("nodes", 1.5, "1", "1 or 2"),
        ("nvidia.com/gpu", "0.5", "0", "0 or 1"),
        ("pods", "2500m", "2", "2 or 3"),
        ("cpu", "1.0005", "1", "1 or 1001m"),
        ("memory", "1024.5", "1Ki", "1Ki or 1025"),
        ("nodes", "2", "", ""),
        ("cpu", "1.5", "", ""),
        ("memory", "1.5Gi", "", ""),
        ("nodes", "2e0", "", ""),
    ],
)
def test_a_limit_that_is_no_whole_amount_is_a_warning_with_what_it_counts_as(
    resource: str, amount: object, counted: str, written: str
) -> None:
    spec = {
        "template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "b"}}},
        "limits": {resource: amount},
    }
    old = {"providerRef": {"name": "b"}, "limits": {"resources": {resource: amount}}}
    found = read_manifests(
        [
            {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": spec},
            {"kind": "Provisioner", "metadata": {"name": "a"}, "spec": old},
        ]
    )

    warned = [
        (one.field, one.value, one.remedy, one.severity) for one in found.problems if one.field.startswith("spec.lim")
    ]
    remedy = f"it counts as {counted}, because it is rounded down to a whole amount; write {written}"
    fields = (f"spec.limits.{resource}", f"spec.limits.resources.{resource}") if counted else ()
    assert warned == [(field, str(amount), remedy, "warning") for field in fields]
    assert [pool.kind for pool in found.pools] == ["NodePool", "Provisioner"]


def test_devices_of_an_overlay_that_are_no_whole_number_are_a_warning() -> None:
    overlay = {"metadata": {"name": "a"}, "spec": {"requirements": [], "capacity": {"example.com/a": "0.5"}}}

    overlays, problems = read_overlays([overlay])

    assert overlays.resources
    assert [(str(one), one.severity) for one in problems] == [
        (
            "NodeOverlay/a: spec.capacity.example.com/a is 0.5: it counts as 1, because it is rounded up to a whole "
            "amount; write 0 or 1",
            "warning",
        )
    ]


def test_memory_in_thousandths_of_bytes_is_a_warning() -> None:
    spec = {
        "template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "b"}}},
        "limits": {"cpu": "500m", "memory": "512m"},
    }
    found = read_manifests(
        [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": spec}]
    )

    assert [pool.name for pool in found.pools] == ["a"]
    (warning,) = [one for one in found.problems if one.field.startswith("spec.limits")]
    assert (warning.field, warning.value, warning.severity) == ("spec.limits.memory", "512m", "warning")
    assert "write 512Mi" in warning.remedy


def test_a_negative_capacity_of_an_overlay_is_refused() -> None:
    overlay = {"metadata": {"name": "a"}, "spec": {"requirements": [], "capacity": {"example.com/a": "-1"}}}

    overlays, problems = read_overlays([overlay])

    assert not overlays.resources
    assert [str(one) for one in problems] == [
        "NodeOverlay/a: spec.capacity.example.com/a is -1: give a quantity of at least zero"
    ]
