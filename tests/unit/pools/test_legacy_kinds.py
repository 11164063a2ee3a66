"""Provisioners, AWSNodeTemplates and inline providers are converted to the present values."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from joiner.cluster import Requirements, Resources, Taint
from joiner.pools import (
    BlockDevice,
    Disruption,
    ImageTerm,
    MetadataOptions,
    NodeClass,
    NodeClassRef,
    NodePool,
    SecurityGroupTerm,
    SubnetTerm,
    read_manifests,
    read_node_class,
    read_node_pool,
)
from joiner.pools.node_pool import DisruptionBudget

SCENARIOS = Path(__file__).parents[3] / "examples" / "scenarios"
DISCOVERY = {"karpenter.sh/discovery": "joiner-demo"}


def provisioner(**spec: Any) -> NodePool:
    return read_node_pool(
        {"kind": "Provisioner", "metadata": {"name": "default"}, "spec": {"providerRef": {"name": "default"}, **spec}}
    )


def template(**spec: Any) -> NodeClass:
    fields = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}, **spec}
    return read_node_class({"kind": "AWSNodeTemplate", "metadata": {"name": "default"}, "spec": fields})


def test_scenario_c_is_a_pool_of_on_demand_linux_nodes_with_40_gib() -> None:
    found = read_manifests(yaml.safe_load_all((SCENARIOS / "c-template.yaml").read_text()))

    pool, node_class = found.pools[0], found.classes[0]
    assert found.problems == ()
    assert pool.class_ref == NodeClassRef("AWSNodeTemplate", "default") == node_class.ref
    assert pool.requirements == Requirements.from_kube(
        [
            {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
            {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        ]
    )
    assert (pool.disruption.consolidate_after, pool.expire_after) == (None, None)
    assert node_class.subnet_terms == (SubnetTerm(tags=DISCOVERY),)
    assert node_class.security_group_terms == (SecurityGroupTerm(tags=DISCOVERY),)
    assert node_class.block_devices == (BlockDevice("/dev/xvda", 40, "gp3", delete_on_termination=True),)
    assert node_class.metadata_options == MetadataOptions(http_put_response_hop_limit=2)
    assert node_class.ami_family is None


def test_scenario_a_has_an_inline_class() -> None:
    found = read_manifests(yaml.safe_load_all((SCENARIOS / "a-inline-provider.yaml").read_text()))

    pool = found.pools[0]
    inline = found.class_of(pool.class_ref)
    assert inline is not None
    assert (inline.key, inline.instance_profile) == ("Inline/default", "KarpenterNodeInstanceProfile-joiner-demo")
    assert pool.requirements.on("karpenter.sh/capacity-type") == Requirements.from_kube(
        [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]}]
    ).on("karpenter.sh/capacity-type")
    assert "karpenter.k8s.aws/instance-category" not in pool.requirements
    assert pool.disruption == Disruption("WhenEmpty", 30, (DisruptionBudget("100%"),))


def test_scenario_b_is_limited_and_spot() -> None:
    pool = read_manifests(yaml.safe_load_all((SCENARIOS / "b-spot-limits.yaml").read_text())).pools[0]

    assert pool.limits == Resources.of(cpu=1000)
    assert pool.requirements.fixed()["karpenter.sh/capacity-type"] == "spot"


def test_limits_are_rounded_down_because_nodes_and_devices_are_whole() -> None:
    pool = provisioner(limits={"resources": {"nodes": "1.5", "nvidia.com/gpu": "900m", "cpu": "1500m"}})

    assert pool.limits == Resources({"nodes": 1, "nvidia.com/gpu": 0, "cpu": 1500})


@pytest.mark.parametrize(
    "key",
    ["node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-family", "karpenter.k8s.aws/instance-category"],
)
def test_requirements_on_the_instance_type_replace_the_defaults_for_it(key: str) -> None:
    pool = provisioner(requirements=[{"key": key, "operator": "In", "values": ["x"]}])

    assert set(pool.requirements) == {key, "kubernetes.io/os", "kubernetes.io/arch", "karpenter.sh/capacity-type"}


def test_a_renamed_label_counts_as_declared() -> None:
    pool = provisioner(requirements=[{"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"]}])

    assert pool.requirements.fixed()["kubernetes.io/arch"] == "arm64"


@pytest.mark.parametrize(
    ("spec", "policy", "after"),
    [
        ({}, "WhenEmpty", None),
        ({"ttlSecondsAfterEmpty": 0}, "WhenEmpty", 0),
        ({"ttlSecondsAfterEmpty": 30, "consolidation": {"enabled": False}}, "WhenEmpty", 30),
        ({"consolidation": {"enabled": True}}, "WhenEmptyOrUnderutilized", 0),
    ],
)
def test_the_disruption_settings_of_a_provisioner(spec: dict[str, Any], policy: str, after: int | None) -> None:
    disruption = provisioner(**spec).disruption

    assert (disruption.policy, disruption.consolidate_after) == (policy, after)


def test_the_other_fields_of_a_provisioner() -> None:
    pool = provisioner(
        weight=7,
        labels={"team": "a"},
        annotations={"note": "x"},
        taints=[{"key": "dedicated", "effect": "NoSchedule", "value": "a"}],
        startupTaints=[{"key": "agent", "effect": "NoExecute"}],
        kubeletConfiguration={"maxPods": 20, "kubeReserved": {"cpu": "100m"}},
        ttlSecondsUntilExpired=3600,
    )

    assert (pool.weight, pool.labels, pool.annotations, pool.expire_after) == (7, {"team": "a"}, {"note": "x"}, 3600)
    assert (pool.taints, pool.startup_taints) == (
        (Taint("dedicated", "NoSchedule", "a"),),
        (Taint("agent", "NoExecute"),),
    )
    assert pool.kubelet is not None
    assert (pool.kubelet.max_pods, pool.kubelet.kube_reserved) == (20, Resources.of(cpu="100m"))


@pytest.mark.parametrize(
    "provider", [{"instanceProfile": "nodes"}, {"subnetSelector": {}, "securityGroupSelector": {}}]
)
def test_a_provider_without_selectors_takes_those_of_the_cluster_and_reports_it(provider: dict[str, Any]) -> None:
    found = read_manifests([{"kind": "Provisioner", "metadata": {"name": "a"}, "spec": {"provider": provider}}])

    assert [(one.key, one.subnet_terms, one.security_group_terms) for one in found.classes] == [("Inline/a", (), ())]
    assert [(str(problem), problem.severity) for problem in found.problems] == [
        (
            "Provisioner/a: spec.provider.subnetSelector: it is not set: the subnets with the tag "
            "kubernetes.io/cluster/NAME of the cluster are used; to choose others, write "
            "{karpenter.sh/discovery: my-cluster}",
            "info",
        ),
        (
            "Provisioner/a: spec.provider.securityGroupSelector: it is not set: the security groups with the tag "
            "kubernetes.io/cluster/NAME of the cluster are used; to choose others, write "
            "{karpenter.sh/discovery: my-cluster}",
            "info",
        ),
    ]


@pytest.mark.parametrize(
    ("options", "severity"),
    [
        ({}, "info"),
        ({"httpTokens": "required"}, "info"),
        (
            {
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 2,
                "httpTokens": "required",
            },
            "info",
        ),
        ({"httpTokens": "optional"}, "error"),
        ({"httpPutResponseHopLimit": 1}, "error"),
        ({"httpEndpoint": "enabled", "other": "enabled"}, "error"),
    ],
)
def test_metadata_options_with_the_default_values_do_not_exclude_a_launch_template(
    options: dict[str, Any], severity: str
) -> None:
    """The API server stored them in every object, by the default of an earlier definition."""
    spec = {"subnetSelector": DISCOVERY, "launchTemplate": "mine", "metadataOptions": options}
    found = read_manifests([{"kind": "AWSNodeTemplate", "metadata": {"name": "a"}, "spec": spec}])

    problems = [each for each in found.problems if each.field == "spec.metadataOptions"]
    assert [each.severity for each in problems] == [severity]
    assert [each.launch_template for each in found.classes] == (["mine"] if severity == "info" else [])
    if severity == "info":
        assert "it has no effect beside launchTemplate, which decides it; remove it" in str(problems[0])


@pytest.mark.parametrize("selectors", [{}, {"subnetSelector": {}, "securityGroupSelector": {}}])
def test_a_node_template_needs_both_selectors(selectors: dict[str, Any]) -> None:
    found = read_manifests([{"kind": "AWSNodeTemplate", "metadata": {"name": "a"}, "spec": selectors}])

    assert found.classes == ()
    assert [(problem.field, problem.severity) for problem in found.problems] == [
        ("spec.subnetSelector", "error"),
        ("spec.securityGroupSelector", "error"),
    ]


@pytest.mark.parametrize(
    ("selector", "terms"),
    [
        ({"a": "b", "c": "*"}, [SubnetTerm({"a": "b", "c": "*"})]),
        ({"a": "b, c", "d": "e"}, [SubnetTerm({"a": "b", "d": "e"}), SubnetTerm({"a": "c", "d": "e"})]),
        ({"aws-ids": "subnet-1, subnet-2"}, [SubnetTerm(id="subnet-1"), SubnetTerm(id="subnet-2")]),
        ({"aws::ids": "subnet-1"}, [SubnetTerm(id="subnet-1")]),
    ],
)
def test_a_selector_becomes_terms(selector: dict[str, str], terms: list[SubnetTerm]) -> None:
    assert template(subnetSelector=selector).subnet_terms == tuple(terms)


@pytest.mark.parametrize(
    ("selector", "terms"),
    [
        ({"aws-ids": "ami-1,ami-2"}, [ImageTerm(id="ami-1"), ImageTerm(id="ami-2")]),
        (
            {"aws::name": "x-*", "aws::owners": "self,amazon"},
            [ImageTerm(name="x-*", owner="self"), ImageTerm(name="x-*", owner="amazon")],
        ),
        ({"team": "a"}, [ImageTerm(tags={"team": "a"})]),
    ],
)
def test_an_image_selector_becomes_terms(selector: dict[str, str], terms: list[ImageTerm]) -> None:
    assert template(amiFamily="AL2", amiSelector=selector).image_terms == tuple(terms)
