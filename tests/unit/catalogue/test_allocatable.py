"""How a class changes the allocatable of a node: kubelet settings, volumes, instance store."""

from dataclasses import replace
from typing import Any

import pytest

from joiner.catalogue import InstanceType, Interfaces, compute_allocatable, compute_capacity
from joiner.catalogue.allocatable import CapacityEstimate, compute_default_capacity, subtract_reserves
from joiner.cluster import Resources
from joiner.pools import BlockDevice, KubeletConfiguration, NodeClass, NodeClassRef, NodePool
from joiner.pools.node_class import NetworkInterface

INTERFACES = Interfaces(3, 10)
LARGE = InstanceType(
    "m5d.large",
    labels={"karpenter.k8s.aws/instance-local-nvme": "75"},
    capacity=compute_default_capacity(vcpus=2, memory_mib=8192, interfaces=INTERFACES),
    allocatable=subtract_reserves(
        compute_default_capacity(vcpus=2, memory_mib=8192, interfaces=INTERFACES), INTERFACES, KubeletConfiguration()
    ),
    interfaces=INTERFACES,
)
USUAL = {"cpu": "1930m", "memory": "6903Mi", "pods": "29", "ephemeral-storage": "17Gi"}


def node_class(kubelet: dict[str, Any] | None = None, **fields: Any) -> NodeClass:
    return NodeClass("default", kubelet=KubeletConfiguration(kubelet) if kubelet else None, **fields)


def test_a_class_without_settings_keeps_the_defaults() -> None:
    assert compute_allocatable(LARGE, node_class()).to_kube() == USUAL
    assert compute_allocatable(LARGE).to_kube() == USUAL


@pytest.mark.parametrize(
    ("kubelet", "changed"),
    [
        ({"maxPods": 10}, {"pods": "10"}),
        ({"maxPods": 110}, {"pods": "110"}),
        ({"podsPerCore": 4}, {"pods": "8"}),
        ({"kubeReserved": {"cpu": "100m"}}, {"cpu": "1900m"}),
        ({"systemReserved": {"cpu": "100m", "memory": "100Mi"}}, {"cpu": "1830m", "memory": "6803Mi"}),
        ({"evictionHard": {"memory.available": "200Mi"}}, {"memory": "6803Mi"}),
        ({"evictionHard": {"memory.available": "100%"}}, {"memory": "7003Mi"}),
        ({"evictionHard": {"nodefs.available": "5Gi"}}, {"ephemeral-storage": "14Gi"}),
        ({"evictionSoft": {"memory.available": "1Gi"}}, {}),
    ],
)
def test_kubelet_settings_change_what_they_name(kubelet: dict[str, Any], changed: dict[str, str]) -> None:
    assert compute_allocatable(LARGE, node_class(kubelet)).to_kube() == {**USUAL, **changed}


@pytest.mark.parametrize(
    ("kubelet", "changed"),
    [
        ({}, {}),
        ({"podsPerCore": 4}, {}),  # Bottlerocket has no such setting
        ({"maxPods": 10}, {"pods": "10", "memory": "7112Mi"}),  # memory is reserved for 10 pods, and not for 29
        ({"maxPods": 110}, {"pods": "110", "memory": "6012Mi"}),
    ],
)
def test_bottlerocket_reserves_memory_for_the_pods_that_its_kubelet_allows(
    kubelet: dict[str, Any], changed: dict[str, str]
) -> None:
    there = node_class(kubelet, ami_family="Bottlerocket")

    assert compute_allocatable(LARGE, there).to_kube() == {**USUAL, **changed}


def test_a_windows_node_has_the_kubelets_pods_and_an_address_for_each_pod() -> None:
    windows = node_class(ami_family="Windows2022")

    assert compute_allocatable(LARGE, windows).to_kube() == {
        "cpu": "1930m",
        "memory": "6012Mi",  # 11 MiB for each of 110 pods are reserved
        "pods": "110",
        "ephemeral-storage": "44Gi",
        "vpc.amazonaws.com/PrivateIPv4Address": "9",
    }
    assert compute_capacity(LARGE, windows)["ephemeral-storage"] == 50 * 2**30


def test_pods_files_of_bottlerocket_are_on_its_second_volume() -> None:
    disks = (BlockDevice("/dev/xvda", 8), BlockDevice("/dev/xvdb", 100))

    assert (
        compute_capacity(LARGE, node_class(ami_family="Bottlerocket", block_devices=disks))["ephemeral-storage"]
        == 100 * 2**30
    )


def test_a_provisioners_own_kubelet_settings_replace_those_of_its_class() -> None:
    pool = NodePool(
        "default",
        NodeClassRef("AWSNodeTemplate", "default"),
        kind="Provisioner",
        kubelet=KubeletConfiguration({"maxPods": 20}),
    )

    assert compute_allocatable(LARGE, node_class({"maxPods": 10}), pool)["pods"] == 20


def test_the_root_volume_holds_pods_files() -> None:
    larger = node_class(block_devices=(BlockDevice("/dev/xvda", 40),))

    assert compute_capacity(LARGE, larger).to_kube()["ephemeral-storage"] == "40Gi"
    assert compute_allocatable(LARGE, larger).to_kube()["ephemeral-storage"] == "35Gi"


def test_a_second_volume_does_not_unless_it_is_the_root() -> None:
    assert compute_allocatable(LARGE, node_class(block_devices=(BlockDevice("/dev/xvdb", 100),))).to_kube() == USUAL
    assert (
        compute_capacity(LARGE, node_class(block_devices=(BlockDevice("/dev/xvdb", 100, root=True),)))[
            "ephemeral-storage"
        ]
        == 100 * 2**30
    )


def test_instance_store_as_one_disk_takes_its_place() -> None:
    assert compute_capacity(LARGE, node_class(instance_store_policy="RAID0"))["ephemeral-storage"] == 75 * 10**9


def test_windows_nodes_do_not_use_their_instance_store() -> None:
    plain, striped = (
        node_class(ami_family="Windows2022"),
        node_class(ami_family="Windows2022", instance_store_policy="RAID0"),
    )

    assert compute_allocatable(LARGE, striped) == compute_allocatable(LARGE, plain)
    assert compute_capacity(LARGE, striped)["ephemeral-storage"] == 50 * 2**30


def test_a_class_of_the_family_custom_declares_what_its_user_data_does() -> None:
    declared = node_class({"maxPods": 10}, ami_family="Custom", instance_store_policy="RAID0")

    assert compute_capacity(LARGE, declared)["ephemeral-storage"] == 75 * 10**9
    assert compute_allocatable(LARGE, declared)["pods"] == 10


def test_no_other_root_volume_of_bottlerocket_holds_the_files_of_pods() -> None:
    system, files = BlockDevice("/dev/xvda", 100, root=True), BlockDevice("/dev/xvdb", 30)

    amounts = [
        compute_capacity(LARGE, node_class(ami_family="Bottlerocket", block_devices=devices))["ephemeral-storage"]
        for devices in ((system,), (system, files))
    ]

    assert amounts == [20 * 2**30, 30 * 2**30]


def test_a_type_of_which_only_the_answer_is_known_keeps_its_reserves() -> None:
    instance_type = InstanceType(
        "x.large",
        capacity=Resources.of(cpu=2, memory="8Gi", pods=29),
        allocatable=Resources.of(cpu="1930m", memory="7Gi", pods=29),
    )

    assert compute_allocatable(instance_type, node_class({"maxPods": 10})).to_kube() == {
        "cpu": "1930m",
        "memory": "7Gi",
        "pods": "10",
    }


def test_interfaces_only_for_efa_have_no_pods_beside_those_that_the_settings_reserve() -> None:
    declared = (NetworkInterface(0, 0), NetworkInterface(0, 1, "efa-only"))
    reserving = replace(
        LARGE,
        capacity=compute_default_capacity(
            vcpus=2, memory_mib=8192, interfaces=INTERFACES, estimate=CapacityEstimate(reserved_interfaces=1)
        ),
    )

    pods = [compute_capacity(each, node_class(network_interfaces=declared))["pods"] for each in (LARGE, reserving)]

    assert pods == [20, 11]


def test_a_node_without_interfaces_for_pods_has_none() -> None:
    assert Interfaces(1, 10).pods(reserved=1) == 0
