"""The cost of a demonstration at AWS prices: instances by the second, and Joiner's own state transitions, Express and
Lambda time.

Prices of Joiner's own parts are those of us-east-1, arm64, without a free tier; Lambda's times are those of this
machine.

>>> half, whole = (InstanceLifetime("c6a.large", seconds=seconds, price_per_hour=0.0765) for seconds in (30, 60))
>>> half.dollars == whole.dollars
True
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from joiner.adapters.instance_prices import LINUX_ON_DEMAND
from joiner.adapters.payload import is_express
from joiner_local.demo.change_watch import WatchedStack, instances
from joiner_local.demo.execution_listing import events, execution

TRANSITION: Final = 25e-6  # $ for each state that a Standard execution enters
EXPRESS_REQUEST: Final = 1e-6
EXPRESS_SECOND: Final = 16.67e-6 * 64 / 1024  # an Express execution of Joiner needs 64 MB, the least there is
LAMBDA_GB_SECOND: Final = 13.3334e-6
LAMBDA_REQUEST: Final = 0.2e-6
LEAST_SECONDS: Final = 60  # an instance is billed by the second, but for a minute at least
ENDED: Final = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")
REPORT: Final = re.compile(r"^REPORT .*Billed Duration: (\d+) ms\s+Memory Size: (\d+) MB", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class InstanceLifetime:
    """One instance from its launch until its termination, or until now."""

    instance_type: str
    seconds: float
    price_per_hour: float

    @property
    def dollars(self) -> float:
        return max(self.seconds, LEAST_SECONDS) / 3600 * self.price_per_hour


@dataclass(frozen=True, slots=True)
class JoinerUsage:
    """What Joiner used: entered states of Standard machines, Express executions and their time, Lambda requests and
    GB-seconds.
    """

    transitions: int
    express: int
    express_seconds: float
    requests: int
    gb_seconds: float

    @property
    def dollars(self) -> float:
        states = self.transitions * TRANSITION + self.express * EXPRESS_REQUEST + self.express_seconds * EXPRESS_SECOND
        return states + self.requests * LAMBDA_REQUEST + self.gb_seconds * LAMBDA_GB_SECOND


def lifetimes(world: WatchedStack) -> list[InstanceLifetime]:
    """Return the lifetimes of all instances, in the order of their launches."""
    found = sorted(instances(world.client("ec2")), key=lambda each: (each["LaunchTime"], each["InstanceId"]))
    return [
        InstanceLifetime(
            each["InstanceType"],
            ((_ended(each) or datetime.now(UTC)) - each["LaunchTime"]).total_seconds(),
            price_per_hour(world.client("pricing"), each["InstanceType"]),
        )
        for each in found
    ]


def _ended(instance: dict[str, Any]) -> datetime | None:
    """Return when the instance ended. EC2 has the time only in a text: "User initiated (2026-11-21 15:08:46 GMT)"."""
    output = ENDED.search(instance.get("StateTransitionReason", ""))
    return datetime.strptime(f"{output[1]}+0000", "%Y-%m-%d %H:%M:%S%z") if output else None


def joiner_usage(world: WatchedStack, executions: Iterable[str]) -> JoinerUsage:
    """Return the usage of executions from their histories, and of all functions from the reports in their logs."""
    arns = list(executions)
    transitions = sum(
        event["type"].endswith("StateEntered") for arn in arns if not is_express(arn) for event in events(world, arn)
    )
    express = [execution(world, arn) for arn in arns if is_express(arn)]
    seconds = sum((each["stopDate"] - each["startDate"]).total_seconds() for each in express)
    reports = list(_reports(world.client("logs")))
    return JoinerUsage(
        transitions, len(express), seconds, len(reports), sum(seconds * gigabytes for seconds, gigabytes in reports)
    )


def _reports(logs: Any) -> Iterator[tuple[float, float]]:
    """Yield seconds and GB of each invocation."""
    groups = [group for page in logs.get_paginator("describe_log_groups").paginate() for group in page["logGroups"]]
    for group in groups:
        for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group["logGroupName"]):
            for event in page["events"]:
                for milliseconds, megabytes in REPORT.findall(event["message"]):
                    yield int(milliseconds) / 1000, int(megabytes) / 1024


def price_per_hour(pricing: Any, instance_type: str) -> float:
    """Return the on-demand price of an instance type from the Price List API, in US$."""
    asked = {**LINUX_ON_DEMAND, "instanceType": instance_type, "tenancy": "Shared"}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in asked.items()]
    product = json.loads(pricing.get_products(ServiceCode="AmazonEC2", Filters=filters)["PriceList"][0])
    term = next(iter(product["terms"]["OnDemand"].values()))
    return float(next(iter(term["priceDimensions"].values()))["pricePerUnit"]["USD"])
