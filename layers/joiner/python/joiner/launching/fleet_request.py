"""The CreateFleet request: which offers EC2 may choose among, and how it shall choose.

Type instant: the answer says at once what was launched and what was not. Each offer is one override with subnet *and*
zone (the zone is redundant, but an error then names it). The planner's order stands in Priority; on-demand EC2 takes
the cheapest that it has, for spot the best of price and depth. Never a maximum price. Source: EC2 API reference,
CreateFleet.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from joiner import names
from joiner.launching.launch_offering import LaunchOffering
from joiner.pools import NodeClass, ResolvedNodeClass

MAXIMUM_OVERRIDES = 300  # EC2's, over all templates of an instant fleet
MAXIMUM_TYPES = 60  # as Karpenter: more make the request slow to answer and no likelier to be met
TEMPLATE_VERSION = "1"
"""The version that Joiner itself creates. `$Latest` and `$Default` name whatever version another principal added."""

TAGGED = ("fleet", "instance", "volume")


def limit_offerings(offers: Sequence[LaunchOffering]) -> tuple[LaunchOffering, ...]:
    """As many of the first offers as one request takes, without doubles."""
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
    resolved: ResolvedNodeClass,
    node_class: NodeClass,
    capacity_type: str,
    count: int,
    tags: Mapping[str, str],
    token: str,
) -> dict[str, Any]:
    """``templates``: launch template name -> the offers whose nodes start from it; ``order`` ranks the offers of all of
    them.
    """
    rank = {offer: float(index) for index, offer in enumerate(order)}
    request: dict[str, Any] = {
        "ClientToken": token,
        "Type": "instant",
        "TargetCapacitySpecification": {"TotalTargetCapacity": count, "DefaultTargetCapacityType": capacity_type},
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": TEMPLATE_VERSION},
                "Overrides": list(_overrides(offers, resolved, rank)),
            }
            for name, offers in templates.items()
        ],
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": [{"Key": key, "Value": tags[key]} for key in sorted(tags)]}
            for kind in TAGGED
        ],
    }
    if capacity_type == names.SPOT:
        request["SpotOptions"] = {"AllocationStrategy": "price-capacity-optimized"}
    else:
        request["OnDemandOptions"] = {"AllocationStrategy": "lowest-price"}
    if node_class.context:
        request["Context"] = node_class.context
    return request


def _overrides(
    offers: Iterable[LaunchOffering], resolved: ResolvedNodeClass, rank: Mapping[LaunchOffering, float]
) -> Iterable[dict[str, Any]]:
    for offer in offers:
        if subnet := resolved.subnet_in(offer.zone):
            yield {
                "InstanceType": offer.instance_type,
                "SubnetId": subnet.id,
                "AvailabilityZone": offer.zone,
                "Priority": rank[offer],
            }
