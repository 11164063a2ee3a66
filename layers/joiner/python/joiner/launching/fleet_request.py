"""The CreateFleet request: the offerings among which EC2 may choose, and the allocation strategy.

Type instant: the answer names the launched instances and the errors. Each offering is one override with subnet *and*
zone (the zone is redundant, but then errors name it). Priority is the order of the planner. For on-demand, EC2 takes
the cheapest available offering; for spot, the best of price and capacity depth. If a NodeOverlay changed a price, EC2
follows the order of the planner (for spot as far as capacity allows), because it knows its own prices only. There is
never a maximum price. Source: EC2 API reference, CreateFleet.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from joiner import names
from joiner.launching.launch_offering import LaunchOffering
from joiner.launching.launch_template_content import INTERRUPTIBLE_MARKET
from joiner.pools import NodeClass, Subnet

MAXIMUM_OVERRIDES = 300  # EC2's limit over all templates of an instant fleet
MAXIMUM_TEMPLATES = 50  # EC2's limit of LaunchTemplateConfigs in a request
MAXIMUM_TYPES = 60  # as Karpenter: more types make the answer slower, not likelier to succeed
TEMPLATE_VERSION = "1"
"""The version that Joiner itself creates. `$Latest` and `$Default` may be a version of another principal."""

TAGGED = ("fleet", "instance", "volume")


def limit_offerings(offers: Sequence[LaunchOffering]) -> tuple[LaunchOffering, ...]:
    """Return the first offerings that fit one request, without duplicates."""
    kept: list[LaunchOffering] = []
    types: set[str] = set()
    for offer in dict.fromkeys(offers):
        if len(kept) < MAXIMUM_OVERRIDES and (offer.instance_type in types or len(types) < MAXIMUM_TYPES):
            types.add(offer.instance_type)
            kept.append(offer)
    return tuple(kept)


def build_fleet_request(
    templates: Mapping[str, Sequence[LaunchOffering]],
    *,
    order: Sequence[LaunchOffering],
    subnets: Mapping[str, Subnet],
    node_class: NodeClass,
    capacity_type: str,
    count: int,
    tags: Mapping[str, str],
    token: str,
    market_type: str = "",
    instance_tags: Mapping[str, str] | None = None,
    prioritized: bool = False,
) -> dict[str, Any]:
    """Return the request. ``instance_tags`` are further tags of the instances only.

    ``templates``: launch template name -> the offerings whose nodes use it. ``subnets``: the subnet of each zone.
    ``order`` ranks the offerings of all templates. ``market_type`` is the market type of a capacity block or an
    interruptible reservation. ``prioritized`` makes EC2 follow ``order``.
    """
    own = instance_tags or {}
    rank = {offer: float(index) for index, offer in enumerate(order)}
    request: dict[str, Any] = {
        "ClientToken": token,
        "Type": "instant",
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": count,
            "DefaultTargetCapacityType": _target_type(capacity_type, market_type),
        },
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": TEMPLATE_VERSION},
                "Overrides": list(_overrides(offers, subnets, rank)),
            }
            for name, offers in templates.items()
        ],
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": _render_tags({**tags, **own} if kind == "instance" else tags)}
            for kind in TAGGED
        ],
    }
    if node_class.context:
        request["Context"] = node_class.context
    return request | _market_type_options(capacity_type, market_type, prioritized=prioritized)


def _render_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]


def _market_type_options(capacity_type: str, market_type: str, *, prioritized: bool = False) -> dict[str, Any]:
    """Return the field with the options of the market type; none for a capacity block.

    >>> _market_type_options("on-demand", "")
    {'OnDemandOptions': {'AllocationStrategy': 'lowest-price'}}
    >>> _market_type_options("spot", "", prioritized=True)
    {'SpotOptions': {'AllocationStrategy': 'capacity-optimized-prioritized'}}
    """
    if capacity_type == names.SPOT:
        strategy = "capacity-optimized-prioritized" if prioritized else "price-capacity-optimized"
        return {"SpotOptions": {"AllocationStrategy": strategy}}
    if market_type == INTERRUPTIBLE_MARKET:
        return {"ReservedCapacityOptions": {"ReservationTypes": [market_type]}}
    strategy = "prioritized" if prioritized else "lowest-price"
    return {} if market_type else {"OnDemandOptions": {"AllocationStrategy": strategy}}


def _target_type(capacity_type: str, market_type: str) -> str:
    """Return the default target capacity type. An ordinary reservation is on-demand capacity that the template names.

    >>> _target_type("reserved", ""), _target_type("reserved", "capacity-block")
    ('on-demand', 'capacity-block')
    """
    if market_type == INTERRUPTIBLE_MARKET:
        return "reserved-capacity"
    return market_type or (names.ON_DEMAND if capacity_type == names.RESERVED else capacity_type)


def _overrides(
    offers: Iterable[LaunchOffering], subnets: Mapping[str, Subnet], rank: Mapping[LaunchOffering, float]
) -> Iterable[dict[str, Any]]:
    for offer in offers:
        if subnet := subnets.get(offer.zone):
            yield {
                "InstanceType": offer.instance_type,
                "SubnetId": subnet.id,
                "AvailabilityZone": offer.zone,
                "Priority": rank[offer],
            }
