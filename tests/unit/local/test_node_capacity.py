"""What a node can hold: the memory that plans expect of its type, and what its kubelet's configuration makes of it."""

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from joiner.catalogue.ec2_instance_types import instance_type_from_ec2, supports_nodes
from joiner_local.node_agent.node_capacity import GI, MI, InstanceHardware, NodeCapacity
from joiner_local.node_agent.node_registration import Unbootable

M5_LARGE = InstanceHardware.from_ec2(INSTANCE_TYPES["m5.large"], root_gib=20)


def test_an_m5_large_is_as_amazon_linux_2023_makes_it() -> None:
    node = NodeCapacity.of(M5_LARGE, {})

    assert (node.capacity["cpu"], node.capacity["pods"]) == (2000, 29)
    assert (node.allocatable["cpu"], node.allocatable["pods"]) == (1930, 29)
    assert node.capacity["memory"] - node.allocatable["memory"] == (255 + 11 * 29 + 100) * MI
    assert node.capacity["ephemeral-storage"] - node.allocatable["ephemeral-storage"] == GI + -(
        -node.capacity["ephemeral-storage"] // 10
    )


@pytest.mark.parametrize(
    "instance_type", [name for name in sorted(INSTANCE_TYPES)[::17] if supports_nodes(INSTANCE_TYPES[name])]
)
def test_a_node_has_the_memory_that_plans_expect_of_its_type(instance_type: str) -> None:
    """Else a plan's price could not be compared with what ran: local nodes would hold pods that the plan bought nodes
    for.
    """
    info = INSTANCE_TYPES[instance_type]
    planned = instance_type_from_ec2(info)

    node = NodeCapacity.of(InstanceHardware.from_ec2(info, root_gib=20), {})

    assert (node.capacity["memory"], node.allocatable["memory"]) == (
        planned.capacity["memory"],
        planned.allocatable["memory"],
    )


def test_the_kubelets_configuration_counts() -> None:
    kubelet = {
        "maxPods": 10,
        "kubeReserved": {"cpu": "500m"},
        "systemReserved": {"memory": "1Gi", "cpu": "100m"},
        "evictionHard": {"memory.available": "5%"},
    }

    node = NodeCapacity.of(M5_LARGE, kubelet)

    assert (node.allocatable["pods"], node.allocatable["cpu"]) == (10, 1400)
    kept = node.capacity["memory"] - node.allocatable["memory"]
    # by the type's pods, not by maxPods
    assert kept == (255 + 11 * 29) * MI + GI + -(-node.capacity["memory"] * 5 // 100)


def test_pods_per_core_is_an_upper_bound() -> None:
    assert NodeCapacity.of(M5_LARGE, {"podsPerCore": 4}).capacity["pods"] == 8


def test_instance_stores_joined_are_the_nodes_disk() -> None:
    c5d = InstanceHardware.from_ec2(INSTANCE_TYPES["c5d.2xlarge"], root_gib=20)

    assert NodeCapacity.of(c5d, {}, "RAID0").capacity["ephemeral-storage"] == 200 * 10**9
    assert NodeCapacity.of(c5d, {}).capacity["ephemeral-storage"] < 20 * GI


@pytest.mark.parametrize(
    "kubelet", [{"kubeReserved": {"cpu": "much"}}, {"maxPods": "many"}, {"evictionHard": {"memory.available": 5}}]
)
def test_a_kubelet_does_not_start_with_a_wrong_configuration(kubelet: dict[str, object]) -> None:
    with pytest.raises(Unbootable, match="configuration is not valid"):
        NodeCapacity.of(M5_LARGE, kubelet)


@pytest.mark.parametrize(
    ("kubelet", "said"),
    [
        ({"kubeReserved": {"cpu": "1500m"}, "systemReserved": {"cpu": "501m"}}, '"cpu" has a reservation of 2001m but'),
        ({"kubeReserved": {"memory": "600Mi"}, "evictionHard": {"memory.available": "7Gi"}}, '"memory" has a'),
        ({"evictionHard": {"memory.available": "95%"}}, '"memory" has a reservation of'),
        ({"systemReserved": {"ephemeral-storage": "20Gi"}}, '"ephemeral-storage" has a reservation of'),
    ],
)
def test_a_kubelet_does_not_start_if_it_is_to_reserve_more_than_the_node_has(
    kubelet: dict[str, dict[str, str]], said: str
) -> None:
    with pytest.raises(Unbootable) as refused:
        NodeCapacity.of(M5_LARGE, kubelet)

    assert str(refused.value).startswith(
        f"Failed to start ContainerManager: invalid Node Allocatable configuration. Resource {said}"
    )
    assert str(refused.value).endswith("Expected capacity >= reservation.")


def test_a_kubelet_that_reserves_all_and_one_on_windows_start_with_nothing_left() -> None:
    assert NodeCapacity.of(M5_LARGE, {"kubeReserved": {"cpu": "2"}}).allocatable["cpu"] == 0
    assert NodeCapacity.of(M5_LARGE, {"kubeReserved": {"cpu": "3"}}, windows=True).allocatable["cpu"] == 0
