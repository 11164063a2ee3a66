"""NodePool and EC2NodeClass in their present version."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from joiner.cluster import Resources
from joiner.pools import (
    Disruption,
    DisruptionBudget,
    ImageTerm,
    MetadataOptions,
    NodeClass,
    NodePool,
    read_manifests,
    read_node_class,
    read_node_pool,
)
from joiner.pools.node_class import ImageFamily

ROOT = Path(__file__).parents[3]
MANIFESTS = Path(__file__).parent / "manifests"
EVERYTHING: list[dict[str, Any]] = list(yaml.safe_load_all((MANIFESTS / "everything.yaml").read_text()))


def node_pool(**spec: Any) -> NodePool:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    fields = {"template": {"spec": {"nodeClassRef": reference}}, **spec}
    return read_node_pool({"kind": "NodePool", "metadata": {"name": "default"}, "spec": fields})


def node_class(**spec: Any) -> NodeClass:
    terms = {"subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]}
    fields = {"amiSelectorTerms": [{"alias": "al2023@latest"}], **terms, **spec}
    return read_node_class({"kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": fields})


def test_a_minimal_pool_has_the_defaults() -> None:
    pool = node_pool()

    assert pool.disruption == Disruption("WhenEmptyOrUnderutilized", 0, (DisruptionBudget("10%"),))
    assert (pool.expire_after, pool.termination_grace_period, pool.weight, pool.replicas) == (720 * 3600, None, 0, None)
    assert (dict(pool.requirements), pool.limits) == ({}, Resources())


def test_every_field_is_read_without_an_error() -> None:
    found = read_manifests(EVERYTHING)

    assert [problem for problem in found.problems if problem.severity == "error"] == []
    assert [pool.key for pool in found.pools] + [one.key for one in found.classes] == [
        "NodePool/everything",
        "Provisioner/everything",
        "AWSNodeTemplate/everything",
        "EC2NodeClass/everything",
    ]


def test_every_field_of_a_class_has_an_effect() -> None:
    found = read_manifests(EVERYTHING)

    assert [problem.field for problem in found.problems if problem.object == "EC2NodeClass/everything"] == []


@pytest.mark.parametrize("duration", ["8h30m", "8h30m0s"])  # the second as clients in Go write it
def test_budgets_with_windows(duration: str) -> None:
    pool = node_pool(
        disruption={
            "budgets": [{"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": duration, "reasons": ["Drifted"]}]
        }
    )

    assert pool.disruption.budgets == (DisruptionBudget("0", ("Drifted",), "0 9 * * mon-fri", 30600),)


def test_the_grace_period_of_a_soft_eviction_may_have_fractions_and_small_units() -> None:
    graces = {"memory.available": "1.5m", "nodefs.available": "500ms"}
    kubelet = node_class(
        kubelet={"evictionSoft": dict.fromkeys(graces, "5%"), "evictionSoftGracePeriod": graces}
    ).kubelet

    assert kubelet is not None
    assert kubelet.config["evictionSoftGracePeriod"] == graces


@pytest.mark.parametrize(
    ("spec", "family"),
    [
        ({}, "AL2023"),
        ({"amiSelectorTerms": [{"alias": "bottlerocket@v1.50.0"}]}, "Bottlerocket"),
        ({"amiFamily": "Custom"}, "Custom"),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-1"}]}, "AL2023"),
    ],
)
def test_the_image_family(spec: dict[str, Any], family: ImageFamily) -> None:
    assert node_class(**spec).ami_family == family


@pytest.mark.parametrize("alias", ["al2023@banana", "al2033@latest"])
def test_an_alias_without_a_known_family_and_release_is_refused_without_a_consequence(alias: str) -> None:
    terms = {"subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]}
    spec = {**terms, "role": "nodes", "amiSelectorTerms": [{"alias": alias}]}
    manifest = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "x"}, "spec": spec}

    errors = [problem for problem in read_manifests([manifest]).problems if problem.severity == "error"]
    fields = {problem.field: problem.value for problem in errors}
    assert fields["spec.amiSelectorTerms[0].alias"] == alias
    assert "spec.amiFamily" not in fields


def test_a_minimal_class_has_the_defaults() -> None:
    plain = node_class()

    assert plain.metadata_options == MetadataOptions("enabled", "disabled", 1, "required")
    assert (plain.role, plain.instance_profile, plain.block_devices, plain.kubelet) == (None, None, (), None)
    assert plain.image_terms == (ImageTerm(alias="al2023@latest"),)


def test_a_static_pool_has_its_number_of_replicas() -> None:
    manifest = {**EVERYTHING[0], "spec": {**EVERYTHING[0]["spec"], "replicas": 2, "limits": {"nodes": 5}}}
    manifest["spec"].pop("weight")

    found = read_manifests([manifest])

    assert found.pools[0].replicas == 2


def test_a_static_pool_takes_neither_weight_nor_limits_of_resources() -> None:
    manifest = {**EVERYTHING[0], "spec": {**EVERYTHING[0]["spec"], "replicas": 2, "weight": 10, "limits": {"cpu": 5}}}

    errors = [problem for problem in read_manifests([manifest]).problems if problem.severity == "error"]
    assert {problem.field for problem in errors} == {"spec.weight", "spec.limits"}


def test_fields_of_a_static_pool_that_only_concern_consolidation_are_reported() -> None:
    spec = {key: value for key, value in EVERYTHING[0]["spec"].items() if key not in ("weight", "limits")}
    budgets = [{"nodes": "1", "reasons": ["Empty", "Underutilized"]}, {"nodes": "1", "reasons": ["Empty", "Drifted"]}]
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m", "budgets": budgets}
    defaults = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": budgets[1:]}

    def reported(given: Mapping[str, Any], **more: Any) -> list[tuple[str, str]]:
        problems = read_manifests([{**EVERYTHING[0], "spec": {**spec, "disruption": given, **more}}]).problems
        idle = [problem for problem in problems if "is not consolidated" in problem.message]
        return [(problem.field, problem.severity) for problem in idle]

    assert reported(disruption, replicas=2) == [
        ("spec.disruption.consolidationPolicy", "warning"),
        ("spec.disruption.consolidateAfter", "warning"),
        ("spec.disruption.budgets[0].reasons", "warning"),
    ]
    assert reported(defaults, replicas=2) == []
    assert reported(disruption) == []


def test_an_expression_for_the_number_of_pods_is_refused_with_the_reason() -> None:
    spec = next(each for each in EVERYTHING if each["kind"] == "EC2NodeClass")["spec"]
    manifest = {"kind": "EC2NodeClass", "metadata": {"name": "x"}, "spec": {**spec, "kubelet": {"maxPods": "max_pods"}}}

    (problem,) = [each for each in read_manifests([manifest]).problems if each.severity == "error"]

    assert problem.field == "spec.kubelet.maxPods"
    assert "expressions by instance type are not supported" in problem.message


OUTSIDE = "pods get no DNS of the cluster"


@pytest.mark.parametrize(
    ("addresses", "severity", "problems", "kept"),
    [
        (["10.100.0.10", "fd00::a"], "warning", {}, ["10.100.0.10", "fd00::a"]),
        (["010.100.000.010"], "warning", {}, ["10.100.0.10"]),
        (["10.100.0.10", "kube-dns"], "warning", {1: "the kubelet leaves it out"}, ["10.100.0.10"]),
        (["kube-dns", "10.100.0"], "error", {0: OUTSIDE, 1: OUTSIDE}, None),
        (["10.100.0.10", 5], "error", {1: "it is no text"}, None),
    ],
)
def test_a_dns_server_without_an_ip_address_is_an_error_only_if_no_other_is_left(
    addresses: list[Any], severity: str, problems: Mapping[int, str], kept: list[str] | None
) -> None:
    spec = next(each for each in EVERYTHING if each["kind"] == "EC2NodeClass")["spec"]
    kubelet = {"clusterDNS": addresses}
    provisioner = {"kind": "Provisioner", "metadata": {"name": "x"}, "spec": {"kubeletConfiguration": kubelet}}
    node_class = {"kind": "EC2NodeClass", "metadata": {"name": "x"}, "spec": {**spec, "kubelet": kubelet}}

    found = read_manifests([node_class, provisioner])

    remedy = "give the IP address of the cluster's DNS service, such as 10.100.0.10"
    assert [(one.severity, one.message) for one in found.problems if "clusterDNS" in one.field] == [
        (severity, f"{path}.clusterDNS[{index}] is {addresses[index]}: {why}: {remedy}")
        for path in ("spec.kubelet", "spec.kubeletConfiguration")
        for index, why in problems.items()
    ]
    assert [one.kubelet.config["clusterDNS"] for one in found.classes if one.kubelet] == ([kept] if kept else [])
