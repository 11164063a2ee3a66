"""The costs of the nodes of a class beside their instances, from its volumes and the region."""

from collections.abc import Sequence

from joiner.catalogue.volume_and_address_prices import PUBLIC_IPV4_PER_HOUR, price_volumes
from joiner.launching.block_devices import ROOT_NAMES
from joiner.launching.image_families.image_family_registry import default_devices
from joiner.launching.node_images import choose_family
from joiner.pools import BlockDevice, NodeClass
from joiner.pools.additional_node_costs import NodeCosts

IMAGE_DEVICES = (BlockDevice("/dev/xvda", 20, "gp3"),)
"""The volumes assumed for a node whose image decides."""
DEFAULT_OVERHEAD_PRICE = 0.01
"""$/h for the running of a node where no settings are known: the default of ``planning.nodeOverheadPricePerHour``."""


def compute_node_costs(node_class: NodeClass, region: str, overhead_price: float) -> NodeCosts:
    """Return the costs of a node of this class. The address counts only in subnets that give one."""
    return NodeCosts(price_volumes(_list_volumes(node_class), region), PUBLIC_IPV4_PER_HOUR, overhead_price)


def _list_volumes(node_class: NodeClass) -> Sequence[BlockDevice]:
    """Return the volumes of a node: those that the class maps, and those of the image that it does not map.

    EC2 creates the latter as the image says, which is taken to be the default of the family. Source: EC2 API reference,
    RunInstances (BlockDeviceMapping).
    """
    of_image = default_devices(choose_family(node_class))
    mapped = {device.device_name for device in node_class.block_devices}
    if not of_image:
        of_image = () if mapped & ROOT_NAMES else IMAGE_DEVICES
    return (*node_class.block_devices, *(device for device in of_image if device.device_name not in mapped))
