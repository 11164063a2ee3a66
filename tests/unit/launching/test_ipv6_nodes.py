"""Nodes of an IPv6 cluster: their subnets, interfaces, user data and pods."""

from dataclasses import replace
from typing import Any, Final

import pytest

from joiner.catalogue import InstanceType, compute_allocatable, compute_capacity
from joiner.catalogue.allocatable import compute_default_capacity, subtract_reserves
from joiner.catalogue.class_compatibility import find_exclusion
from joiner.catalogue.instance_features import InstanceFeatures
from joiner.catalogue.instance_types import Interfaces
from joiner.launching.node_class_resolution import resolve_node_class
from joiner.launching.node_interfaces import build_interface_fields
from joiner.launching.user_data import build_user_data
from joiner.pools import KubeletConfiguration, NodeClass, ResolvedNodeClass
from joiner.pools.node_class import ImageFamily, NetworkInterface
from joiner.pools.node_kubelet import choose_kubelet
from joiner_local.node_agent.boot_settings import BootSettings
from joiner_local.node_agent.bottlerocket_settings import read_bottlerocket_settings
from joiner_local.node_agent.eks_bootstrap_script import read_bootstrap_script
from joiner_local.node_agent.node_config import read_node_config
from tests.unit.launching.launch_scenario import CEILINGS, CLUSTER, MODERN, SUBNETS, TEMPLATE, VERSION, found, wanted

SIX: Final = replace(TEMPLATE, ip_family="ipv6")
PLAIN: Final = NodeClass("default", ip_family="ipv6")
CERTIFICATE: Final = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="
FACTS: Final = replace(CLUSTER, service_cidr="fd12:3456:789a::/108", certificate_authority=CERTIFICATE)
RANGE: Final = [{"Ipv6CidrBlock": "2600:1f18:1::/64", "Ipv6CidrBlockState": {"State": "associated"}}]


def with_ranges(*ids: str) -> list[dict[str, Any]]:
    """Return the subnets of the scenario, these with an IPv6 range."""
    return [{**each, "Ipv6CidrBlockAssociationSet": RANGE if each["SubnetId"] in ids else []} for each in SUBNETS]


def resolve(node_class: NodeClass, *ids: str) -> ResolvedNodeClass:
    answers = found(subnets=with_ranges(*ids))
    return resolve_node_class(node_class, answers, CEILINGS, cluster="prod", kubernetes_version=VERSION)


def reported(there: ResolvedNodeClass) -> list[tuple[str, str, str]]:
    return [(one.condition, one.reason, one.severity) for one in there.problems if one.severity != "info"]


def test_nodes_get_subnets_with_an_ipv6_range_only() -> None:
    there = resolve(SIX, "subnet-a1", "subnet-b1")

    assert [subnet.id for subnet in there.subnets] == ["subnet-b1", "subnet-a1"]
    assert there.ready
    assert reported(there) == [("SubnetsReady", "SubnetsWithoutIPv6", "warning")]
    assert there.problems[0].message.startswith("spec.subnetSelector: subnet-a2, subnet-c1 have no IPv6 range")


def test_a_class_without_such_a_subnet_is_refused() -> None:
    there = resolve(SIX)

    assert reported(there) == [("SubnetsReady", "SubnetsWithoutIPv6", "error")]
    assert there.subnets == ()


def test_an_ipv4_cluster_needs_no_range() -> None:
    there = resolve(TEMPLATE)

    assert len(there.subnets) == 4
    assert reported(there) == []


@pytest.mark.parametrize("family", ["Windows2019", "Windows2022", "Windows2025"])
def test_windows_nodes_are_refused(family: ImageFamily) -> None:
    there = resolve(
        replace(SIX, ami_family=family, block_devices=()), "subnet-a1", "subnet-a2", "subnet-b1", "subnet-c1"
    )

    assert ("ValidationSucceeded", "IPv6NotSupported", "error") in reported(there)


def test_prefixes_that_exclude_the_address_are_reported() -> None:
    class_with_prefixes = replace(SIX, ip_prefix_count=2)

    there = resolve(class_with_prefixes, *(str(each["SubnetId"]) for each in SUBNETS))

    assert reported(there) == [("ValidationSucceeded", "WithoutEffect", "warning")]
    assert "Ipv4PrefixCount" not in build_interface_fields(class_with_prefixes, ["sg-1"])["NetworkInterfaces"][0]


def test_the_primary_interface_requests_an_ipv6_address() -> None:
    assert build_interface_fields(PLAIN, ["sg-1"]) == {
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"], "Ipv6AddressCount": 1, "PrimaryIpv6": True}]
    }


def test_of_several_interfaces_only_the_primary_one_requests_it() -> None:
    declared = replace(PLAIN, network_interfaces=(NetworkInterface(0, 0), NetworkInterface(0, 1, "efa-only")))
    with_efa = build_interface_fields(PLAIN, ["sg-1"], InstanceFeatures(cards=(15, 15), efa=2))

    for fields in (build_interface_fields(declared, ["sg-1"]), with_efa):
        assert [nic.get("Ipv6AddressCount") for nic in fields["NetworkInterfaces"]] == [1, None]


def boot(node_class: NodeClass, family: ImageFamily) -> BootSettings:
    """Return what an instance of the family reads from the user data of the class."""
    claim = wanted("x", pool=MODERN).claim
    text = build_user_data(FACTS, claim, MODERN, node_class, family).encode()
    match family:
        case "AL2023":
            return read_node_config(text)
        case "Bottlerocket":
            return read_bottlerocket_settings(text)
        case _:
            return read_bootstrap_script(text)


@pytest.mark.parametrize("family", ["AL2023", "Bottlerocket", "AL2", "Ubuntu"])
def test_an_instance_of_each_family_boots_as_an_ipv6_node(family: ImageFamily) -> None:
    booted = boot(replace(PLAIN, ami_family=family), family)

    assert booted.ip_family == "ipv6"
    assert booted.kubelet["maxPods"] == 110
    if family == "AL2023":  # nodeadm derives the address of the DNS from the range
        assert booted.cidr == "fd12:3456:789a::/108"
    else:
        assert booted.kubelet["clusterDNS"] == ["fd12:3456:789a::a"]


@pytest.mark.parametrize("family", ["AL2023", "Bottlerocket", "AL2", "Ubuntu"])
def test_an_ipv4_cluster_gets_ipv4_nodes_without_a_number_of_pods(family: ImageFamily) -> None:
    four = replace(FACTS, service_cidr="10.100.0.0/16")
    text = build_user_data(
        four, wanted("x", pool=MODERN).claim, MODERN, NodeClass("default", ami_family=family), family
    )

    assert "110" not in text.replace("10.100.0", "")
    assert "ipv6" not in text.lower()


INTERFACES: Final = Interfaces(3, 10)
CAPACITY: Final = compute_default_capacity(vcpus=2, memory_mib=8192, interfaces=INTERFACES)
M5: Final = InstanceType(
    "m5.large",
    capacity=CAPACITY,
    allocatable=subtract_reserves(CAPACITY, INTERFACES, KubeletConfiguration()),
    labels={"karpenter.k8s.aws/instance-hypervisor": "nitro"},
    interfaces=INTERFACES,
)


def test_plans_count_the_pods_of_the_kubelet_and_the_memory_that_is_reserved_for_them() -> None:
    four, six = compute_allocatable(M5, NodeClass("default")), compute_allocatable(M5, PLAIN)

    assert (four["pods"], six["pods"], compute_capacity(M5, PLAIN)["pods"]) == (29, 110, 110)
    assert four["memory"] - six["memory"] == 11 * (110 - 29) * 2**20


@pytest.mark.parametrize(
    ("family", "declared", "pods", "reserved"),
    [
        ("AL2023", {}, 110, {"memory": "1465Mi"}),
        (None, {"maxPods": 50}, 50, {"memory": "805Mi"}),
        ("AL2023", {"kubeReserved": {"memory": "1Gi"}}, 110, {"memory": "1Gi"}),
        ("AL2023", {"kubeReserved": {"cpu": "1"}}, 110, {"cpu": "1", "memory": "1465Mi"}),
        ("Bottlerocket", {}, 110, None),
        ("AL2", {"maxPods": 20}, 20, None),
    ],
)
def test_settings_of_the_class_are_kept(
    family: ImageFamily | None, declared: dict[str, Any], pods: int, reserved: dict[str, str] | None
) -> None:
    kubelet = KubeletConfiguration(declared)

    config = choose_kubelet(replace(PLAIN, ami_family=family, kubelet=kubelet), None).config

    assert (config["maxPods"], config.get("kubeReserved")) == (pods, reserved)


def test_types_without_nitro_are_not_offered() -> None:
    old = replace(M5, name="m4.large", labels={"karpenter.k8s.aws/instance-hypervisor": "xen"})

    reason = "m4.large is not based on Nitro, which the ipFamily ipv6 of the cluster needs"
    assert str(find_exclusion(old, PLAIN)) == reason
    assert find_exclusion(old, NodeClass("default")) is None
    assert find_exclusion(M5, PLAIN) is None
    assert find_exclusion(replace(M5, labels={}), PLAIN) is None  # bare metal
