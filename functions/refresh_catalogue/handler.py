"""Refresh catalogue: write every instance type that can be a node, with its zones and its present prices.

The planner reads this one document. It is written whole or not at all: if something cannot be read, the previous
catalogue stays and the error is reported. A type without a price is left out and counted.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters import documents, environment
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.prices import on_demand_prices, price_list_region, spot_prices
from joiner.adapters.store import Store
from joiner.catalogue import Catalogue, instance_type_from_ec2, supports_nodes

logger = Logger()


class CatalogueRefresh:
    """One refresh; its dependencies are arguments, which tests replace."""

    def __init__(self, ec2: Ec2, ec2_client: Any, pricing: Any, store: Store, region: str) -> None:
        self._ec2 = ec2
        self._client = ec2_client
        self._pricing = pricing
        self._store = store
        self._region = region

    def run(self, now: datetime) -> dict[str, Any]:
        """Write the catalogue; return its ``{"types", "offerings", "withoutPrice"}``."""
        zones = self._zones()
        on_demand = on_demand_prices(self._pricing, self._region)
        spot = spot_prices(self._client, now)
        described = [
            info for info in self._ec2.pages("describe_instance_types", "InstanceTypes") if supports_nodes(info)
        ]
        offered = [info for info in described if info["InstanceType"] in zones]
        types = [
            instance_type_from_ec2(info, zones[name], on_demand.get(name), spot.get(name))
            for info in offered
            for name in (info["InstanceType"],)
        ]
        catalogue = Catalogue.of(found for found in types if found.offerings)
        documents.put_catalogue(self._store, catalogue, now)
        return {
            "types": len(catalogue.types),
            "offerings": sum(len(found.offerings) for found in catalogue.types.values()),
            "withoutPrice": len(types) - len(catalogue.types),
        }

    def _zones(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for offering in self._ec2.pages(
            "describe_instance_type_offerings", "InstanceTypeOfferings", LocationType="availability-zone"
        ):
            found.setdefault(offering["InstanceType"], []).append(offering["Location"])
        return found


@logger.inject_lambda_context(clear_state=True)
def handler(_event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Handle one invocation of the function."""
    region, client = environment.region(), environment.client("ec2")
    pricing = environment.client("pricing", price_list_region(region))
    answer = CatalogueRefresh(Ec2(client), client, pricing, environment.store(), region).run(environment.now())
    logger.info("refreshed the catalogue", **answer)
    return answer
