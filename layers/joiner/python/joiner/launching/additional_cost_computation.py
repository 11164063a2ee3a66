"""The costs of the nodes of a class beside their instances, from its volumes and the region."""

from joiner.catalogue.volume_and_address_prices import PUBLIC_IPV4_PER_HOUR, price_volumes
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
    devices = node_class.block_devices or default_devices(choose_family(node_class)) or IMAGE_DEVICES
    return NodeCosts(price_volumes(devices, region), PUBLIC_IPV4_PER_HOUR, overhead_price)
