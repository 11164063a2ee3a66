"""Refresh catalogue: write every instance type that can be a node, with its zones and its present prices.

The planner reads this one document. It is written whole or not at all: if something cannot be read, the previous
catalogue stays and the error is reported. A type without a price is left out and counted.

Two prices have a substitute. On-demand prices are those of the price file of the settings, if they name one. Without
it, they are those of a packaged table with their date where the partition has no Price List API, and where that API has
never answered. A spot price is the on-demand price until EC2 returns the first
one; later an empty answer keeps the last prices.

If the settings ask for it, the commitments of the account are read, too (`account_commitments`). A call for them that
fails does not fail the refresh.

On-demand prices of Local Zones are their own. If the Price List API has none for the group of a Local Zone, they are
those of the region.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from functions.refresh_catalogue.account_commitments import AccountReader
from joiner.adapters import documents, environment, metrics, spot_history, sweep_documents
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.instance_prices import DEDICATED_QUESTIONS, on_demand_prices, price_list_region, spot_prices
from joiner.adapters.interruption_records import InterruptionWarnings
from joiner.adapters.placement_score_queries import read_placement_scores
from joiner.adapters.price_files import read_price_file
from joiner.adapters.store import Store
from joiner.catalogue import (
    CapacityEstimate,
    Catalogue,
    InstanceType,
    instance_type_from_ec2,
    load_published_prices,
    supports_nodes,
)
from joiner.catalogue.instance_tenancy import find_surcharges
from joiner.catalogue.interruption_history import SpotHours, SpotPlace, interruption_rates, price_interruptions
from joiner.catalogue.observed_memory import valid_memory
from joiner.catalogue.placement_scores import choose_families, expect_warnings
from joiner.catalogue.price_lists import PriceLists, choose_spot_prices, find_zone_prices
from joiner.catalogue.published_prices import PublishedPrices
from joiner.catalogue.reserved_instances_and_savings_plans import (
    NOTHING_OWNED,
    DeclaredCommitments,
    combine_commitments,
    commitments_of_settings,
)
from joiner.names import zone_location

logger = Logger()
PRICE_LIST: Final = "Price List API"
NO_COMMITMENTS: Final[DeclaredCommitments] = ((), ())


class NoPrices(Exception):
    """There is no source of on-demand prices for the region."""


@dataclass(frozen=True, slots=True)
class InterruptionPrices:
    """Adds the price of interruptions to spot offerings; an interruption loses ``lost_hours`` of a node's work.

    ``scored`` is the region of the placement scores that count, too; empty: none are read.
    """

    warnings: InterruptionWarnings
    lost_hours: float
    scored: str = ""

    def add(self, types: Sequence[InstanceType], store: Store, ec2: Ec2, now: int) -> list[InstanceType]:
        """Return the types with what was recorded until now, and what EC2 expects."""
        hours = spot_history.get_spot_hours(store)
        expected = self._expected(types, hours, ec2, now) if self.scored else {}
        rates = interruption_rates(self.warnings.all(), hours, now, expected)
        return price_interruptions(types, rates, self.lost_hours)

    def _expected(
        self, types: Sequence[InstanceType], hours: SpotHours, ec2: Ec2, now: int
    ) -> Mapping[SpotPlace, float]:
        scores, refused = read_placement_scores(ec2, self.scored, choose_families(types, hours, now))
        for family, reason in refused.items():
            logger.warning("EC2 gave no placement score: the mean of the others counts", family=family, reason=reason)
        return expect_warnings(scores, types)


class CatalogueRefresh:
    """One refresh; its dependencies are arguments, which tests replace. `pricing` is None without a Price List API."""

    def __init__(
        self,
        ec2: Ec2,
        ec2_client: Any,
        pricing: Any | None,
        store: Store,
        region: str,
        *,
        estimate: CapacityEstimate | None = None,
        commitments: DeclaredCommitments = NO_COMMITMENTS,
        account: AccountReader | None = None,
        interruptions: InterruptionPrices | None = None,
        table: PublishedPrices | None = None,
    ) -> None:
        self._ec2 = ec2
        self._client = ec2_client
        self._pricing = pricing
        self._store = store
        self._region = region
        self._estimate = estimate
        self._commitments = commitments
        self._account = account
        self._interruptions = interruptions
        self._table = table or load_published_prices(region)

    def run(self, now: datetime) -> dict[str, Any]:
        """Write the catalogue; return its ``{"types", "offerings", "withoutPrice", "commitments"}``, the sources of the
        prices: ``{"onDemandPrices", "spotPrices"}``, and which commitments of the account could not be read:
        ``{"commitmentsNotRead"}``.
        """
        former = self._former()
        zones = self._zones()
        locations = {zone_location(zone) for each in zones.values() for zone in each} - {self._region}
        on_demand, of_on_demand = self._on_demand(former, locations)
        spot, of_spot = self._spot(former, now)
        surcharges = self._surcharges(former, on_demand[""], of_on_demand)
        types = self._types(zones, on_demand, spot, now, surcharges=surcharges)
        if self._interruptions is not None:
            types = self._interruptions.add(types, self._store, self._ec2, int(now.timestamp()))
        catalogue = Catalogue.of(found for found in types if found.offerings)
        account = NOTHING_OWNED if self._account is None else self._account.read(self._store, now)
        owned = combine_commitments(self._commitments, account, catalogue, int(now.timestamp()))
        catalogue = replace(catalogue, commitments=owned)
        documents.put_catalogue(self._store, catalogue, now)
        return {
            "types": len(catalogue.types),
            "offerings": sum(len(found.offerings) for found in catalogue.types.values()),
            "withoutPrice": len(types) - len(catalogue.types),
            "onDemandPrices": of_on_demand,
            "spotPrices": of_spot,
            "interrupted": sum(one.interruptions > 0 for each in catalogue.types.values() for one in each.offerings),
            "commitments": len(catalogue.commitments),
            "commitmentsNotRead": sorted(account.failures),
        }

    def _types(
        self,
        zones: Mapping[str, list[str]],
        on_demand: PriceLists,
        spot: PriceLists | None,
        now: datetime,
        *,
        surcharges: Mapping[str, float],
    ) -> list[InstanceType]:
        """Return every type that is offered and can be a node. A type without a price has no offerings."""
        described = self._ec2.pages("describe_instance_types", "InstanceTypes")
        memory = valid_memory(sweep_documents.get_observed_memory(self._store), now)
        return [
            instance_type_from_ec2(
                info,
                zones[name],
                prices := find_zone_prices(name, zones[name], on_demand),
                prices if spot is None else spot.get(name),
                estimate=self._estimate,
                observed_memory=memory.get(name),
                dedicated_surcharge=surcharges.get(name),
            )
            for info in described
            for name in (info["InstanceType"],)
            if name in zones and supports_nodes(info)
        ]

    def _former(self) -> Catalogue | None:
        try:
            return documents.get_catalogue(self._store)
        except documents.NoCatalogue:
            return None

    def _on_demand(self, former: Catalogue | None, locations: Collection[str]) -> tuple[PriceLists, str]:
        """Return the on-demand prices of the region (key "") and of the groups of Local Zones, and their source."""
        table = self._table
        if self._pricing is not None:
            try:
                elsewhere = {each: on_demand_prices(self._pricing, each) for each in sorted(locations)}
                return {"": on_demand_prices(self._pricing, self._region), **elsewhere}, PRICE_LIST
            except (BotoCoreError, ClientError):
                if former is not None or table is None:
                    raise  # the last catalogue stays
                logger.exception("the Price List API did not answer: the first catalogue has published prices")
        if table is None:
            raise NoPrices(
                f"{self._region} has no Price List API, and no prices of it are packaged: Joiner cannot plan in it. "
                "Write a price file, name it under prices.file in clusters/NAME.yaml, and deploy"
            )
        return {"": table.prices}, f"published on {table.published}"

    def _surcharges(self, former: Catalogue | None, shared: Mapping[str, float], source: str) -> Mapping[str, float]:
        """Return the surcharges of Dedicated Instances of the region by type, if the price list is the source of the
        other prices; those of the last catalogue if it does not answer."""
        if self._pricing is None or source != PRICE_LIST:
            return {}
        try:
            return find_surcharges(shared, on_demand_prices(self._pricing, self._region, DEDICATED_QUESTIONS))
        except (BotoCoreError, ClientError) as reason:
            logger.warning("the prices of Dedicated Instances were not read: the last ones stay", reason=str(reason))
            known = {name: one.dedicated_surcharge for name, one in (former.types if former else {}).items()}
            return {name: more for name, more in known.items() if more is not None}

    def _spot(self, former: Catalogue | None, now: datetime) -> tuple[PriceLists | None, str]:
        """Return the spot prices by type and zone, and their source; None if EC2 has never returned any."""
        found = spot_prices(self._client, now)
        if not found:
            logger.warning("EC2 returned no spot price")
        return choose_spot_prices(found, former)

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
    place = environment.json_setting("JOINER_PRICE_FILE")
    table = read_price_file(environment.client("s3"), place["bucket"], place["key"]) if place else None
    endpoint = None if table else price_list_region(region)
    pricing = environment.client("pricing", endpoint) if endpoint else None
    estimate = CapacityEstimate(
        float(environment.setting("JOINER_MEMORY_OVERHEAD_PERCENT")) / 100,
        int(environment.setting("JOINER_RESERVED_INTERFACES")),
    )
    settings, cluster = environment.json_setting("JOINER_COMMITMENTS"), environment.setting("JOINER_CLUSTER")
    from_account = bool(settings.get("fromAccount"))
    lost_hours = float(environment.setting("JOINER_INTERRUPTION_LOST_HOURS"))
    scored = region if environment.setting("JOINER_PLACEMENT_SCORES") == "true" else ""
    refresh = CatalogueRefresh(
        Ec2(client),
        client,
        pricing,
        environment.store(),
        region,
        estimate=estimate,
        commitments=commitments_of_settings(settings),
        account=AccountReader(client, environment.client("savingsplans"), region, cluster) if from_account else None,
        interruptions=InterruptionPrices(environment.interruption_records(), lost_hours, scored)
        if lost_hours
        else None,
        table=table,
    )
    now = environment.now()
    answer = refresh.run(now)
    age = table.age_days(now.date()) if table else 0
    metrics.publish(cluster, {"CommitmentsNotRead": len(answer["commitmentsNotRead"]), "PriceTableAgeDays": age})
    logger.info("refreshed the catalogue", **answer)
    return answer
