"""The price of a node's volumes: those that its class maps, and those of its image that the class does not map."""

from dataclasses import replace

import pytest

from joiner.catalogue.volume_and_address_prices import price_volumes
from joiner.launching.additional_cost_computation import compute_node_costs
from joiner.pools import BlockDevice, NodeClass
from joiner.pools.node_class import ImageFamily

REGION = "us-east-1"


def device(name: str, gib: int) -> BlockDevice:
    return BlockDevice(name, gib, "gp3")


@pytest.mark.parametrize(
    ("family", "mapped", "of_image"),
    [
        ("AL2023", [], [device("/dev/xvda", 20)]),
        ("AL2023", [device("/dev/xvda", 50)], []),
        ("AL2023", [device("/dev/xvdb", 100)], [device("/dev/xvda", 20)]),
        ("AL2023", [device("/dev/sda1", 100)], [device("/dev/xvda", 20)]),
        ("Bottlerocket", [device("/dev/xvdb", 100)], [device("/dev/xvda", 4)]),
        ("Bottlerocket", [device("/dev/xvda", 8)], [device("/dev/xvdb", 20)]),
        ("Windows2022", [device("/dev/xvdb", 100)], [device("/dev/sda1", 50)]),
        ("Custom", [], [device("/dev/xvda", 20)]),
        ("Custom", [device("/dev/xvdb", 100)], [device("/dev/xvda", 20)]),
        ("Custom", [device("/dev/sda1", 100)], []),
    ],
)
def test_volumes_of_the_image_that_a_class_does_not_map_have_a_price_too(
    family: ImageFamily, mapped: list[BlockDevice], of_image: list[BlockDevice]
) -> None:
    node_class = replace(NodeClass("default"), ami_family=family, block_devices=tuple(mapped))

    assert compute_node_costs(node_class, REGION, 0.0).volumes == price_volumes([*mapped, *of_image], REGION)
