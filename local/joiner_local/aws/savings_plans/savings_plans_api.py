"""AWS Savings Plans, DescribeSavingsPlans and DescribeSavingsPlanRates: a small web application of our own, because
moto does not have the service.

Knob: `POST /_local/savings-plans {"pricePerHour": 3.5, "discountPercent": 28, "family": "m5"}` buys a plan and returns
its id; without a family it is a Compute Savings Plan. Optional fields are `state`, `type`, `region` and
`endsInSeconds`. `{"clear": true}` removes all. Plans are shown in every state unless `states` names some. Beside the
rate of Linux on shared hardware each type has rates that a reader must not take for it (Windows, dedicated hardware,
unused reserved capacity, another region), and a Compute Savings Plan has one of Fargate.

Source: Savings Plans API reference.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from moto.core.utils import utcnow
from moto.ec2.models.instance_types import INSTANCE_TYPES

from joiner_local.aws.ec2.ec2_prices import Ec2Prices
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from joiner_local.knob_requests import check_fields, read_number

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

PAGE: Final = 100
MOST_RESULTS: Final = 1_000
FIELDS: Final = {"pricePerHour", "discountPercent", "family", "state", "type", "region", "endsInSeconds"}
STATES: Final = (
    "payment-pending",
    "payment-failed",
    "active",
    "retired",
    "queued",
    "queued-deleted",
    "pending-return",
    "returned",
)
YEAR: Final = 31_536_000
RATE_FILTERS: Final = frozenset(
    {
        "region",
        "instanceType",
        "productDescription",
        "tenancy",
        "productType",
        "serviceCode",
        "usageType",
        "operation",
    }
)
OTHER_RATES: Final = (
    ("BoxUsage", "RunInstances:0002", "Windows", "shared", REGION, 2.0),
    ("DedicatedUsage", "RunInstances", "Linux/UNIX", "dedicated", REGION, 1.1),
    ("UnusedBox", "RunInstances", "Linux/UNIX", "shared", REGION, 3.0),
    ("BoxUsage", "RunInstances", "Linux/UNIX", "shared", "eu-west-1", 1.3),
)
"""Usage type, operation, platform, tenancy, region, and the rate as a multiple of that of Linux on shared hardware."""

PLANS: Final[dict[str, dict[str, Any]]] = {}
DISCOUNTS: Final[dict[str, float]] = {}


class SavingsPlansRefused(Exception):
    """An error that the API returns."""

    def __init__(self, code: str, message: str, status: str = "400 Bad Request") -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def buy_savings_plan(asked: dict[str, Any]) -> dict[str, Any]:
    """Add a plan, or remove all."""
    if asked.get("clear"):
        PLANS.clear()
        DISCOUNTS.clear()
        return {}
    check_fields(asked, FIELDS, "savings-plans")
    if asked.get("state", "active") not in STATES:
        raise ValueError(f"savings-plans: state is {asked['state']!r}; there are {', '.join(STATES)}")
    identifier, now, family = str(uuid.uuid4()), utcnow(), asked.get("family")
    ends = now + timedelta(seconds=read_number(asked, "endsInSeconds", YEAR))
    PLANS[identifier] = {
        "savingsPlanId": identifier,
        "savingsPlanArn": f"arn:aws:savingsplans::{ACCOUNT}:savingsplan/{identifier}",
        "state": asked.get("state", "active"),
        "savingsPlanType": asked.get("type") or ("EC2Instance" if family else "Compute"),
        "start": f"{now:%Y-%m-%dT%H:%M:%S.000Z}",
        "end": f"{ends:%Y-%m-%dT%H:%M:%S.000Z}",
        "productTypes": ["EC2"] if family else ["EC2", "Fargate", "Lambda"],
        "currency": "USD",
        "commitment": f"{read_number(asked, 'pricePerHour'):.8f}",
        "termDurationInSeconds": YEAR,
        **({"ec2InstanceFamily": family, "region": asked.get("region", REGION)} if family else {}),
    }
    DISCOUNTS[identifier] = read_number(asked, "discountPercent") / 100
    return {"id": identifier}


def describe_savings_plans(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plans in the named states, by pages."""
    states, ids = asked.get("states") or STATES, asked.get("savingsPlanIds")
    if wrong := [each for each in states if each not in STATES]:
        raise SavingsPlansRefused("ValidationException", f"{wrong[0]} is no state of a savings plan")
    found = [one for one in list(PLANS.values()) if one["state"] in states and (not ids or one["savingsPlanId"] in ids)]
    return _page(found, "savingsPlans", asked)


def describe_savings_plan_rates(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rates of one plan that match the filters, by pages."""
    identifier = asked.get("savingsPlanId", "")
    if identifier not in PLANS:
        raise SavingsPlansRefused(
            "ResourceNotFoundException", f"The savings plan {identifier!r} does not exist", "404 Not Found"
        )
    filters = asked.get("filters") or ()
    if wrong := [each["name"] for each in filters if each["name"] not in RATE_FILTERS]:
        raise SavingsPlansRefused("ValidationException", f"{wrong[0]} is no filter of rates")
    rates = [one for one in _rates(identifier) if all(_facts(one).get(f["name"]) in f["values"] for f in filters)]
    return {"savingsPlanId": identifier, **_page(rates, "searchResults", asked)}


def _page(found: list[dict[str, Any]], name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    most, token = asked.get("maxResults") or PAGE, asked.get("nextToken") or "0"
    if not 1 <= most <= MOST_RESULTS:
        raise SavingsPlansRefused("ValidationException", f"maxResults is {most}: from 1 to {MOST_RESULTS} is possible")
    if not str(token).isdecimal():
        raise SavingsPlansRefused("ValidationException", "nextToken is not of this API")
    start = int(token)
    end = start + most
    return {name: found[start:end], **({"nextToken": str(end)} if end < len(found) else {})}


def _facts(rate: Mapping[str, Any]) -> dict[str, str]:
    return {**rate, **{each["name"]: each["value"] for each in rate["properties"]}}


def _rates(identifier: str) -> Iterable[dict[str, Any]]:
    family, prices = PLANS[identifier].get("ec2InstanceFamily"), Ec2Prices.packaged()
    own = ("BoxUsage", "RunInstances", "Linux/UNIX", "shared", REGION, 1.0)
    for name in sorted(INSTANCE_TYPES):
        if family and name.partition(".")[0] != family:
            continue
        rate = prices.on_demand(name) * (1 - DISCOUNTS[identifier])
        for usage, operation, platform, tenancy, region, factor in (*OTHER_RATES, own):
            yield {
                "rate": f"{rate * factor:.6f}",
                "currency": "USD",
                "unit": "Hrs",
                "productType": "EC2",
                "serviceCode": "AmazonEC2",
                "usageType": f"{usage}:{name}" if region == REGION else f"EU-{usage}:{name}",
                "operation": operation,
                "properties": [
                    {"name": "region", "value": region},
                    {"name": "instanceType", "value": name},
                    {"name": "instanceFamily", "value": name.partition(".")[0]},
                    {"name": "productDescription", "value": platform},
                    {"name": "tenancy", "value": tenancy},
                ],
            }
    if not family:
        yield {
            "rate": "0.030000",
            "currency": "USD",
            "unit": "Hrs",
            "productType": "Fargate",
            "serviceCode": "AmazonECS",
            "usageType": "Fargate-vCPU-Hours:perCPU",
            "operation": "",
            "properties": [{"name": "region", "value": REGION}],
        }


OPERATIONS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "/DescribeSavingsPlans": describe_savings_plans,
    "/DescribeSavingsPlanRates": describe_savings_plan_rates,
}


def application(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    """Answer requests that are signed for `savingsplans`, as a WSGI application."""
    path = str(environ.get("PATH_INFO"))
    headers = [("Content-Type", "application/json")]
    try:
        asked = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or b"{}")
        if path not in OPERATIONS:
            raise SavingsPlansRefused("ValidationException", f"the local API has {', '.join(OPERATIONS)}, not {path}")
        status, answer = "200 OK", OPERATIONS[path](asked)
    except SavingsPlansRefused as error:
        status, answer = error.status, {"message": str(error)}
        headers.append(("x-amzn-ErrorType", error.code))
    body = json.dumps(answer).encode()
    start_response(status, [*headers, ("Content-Length", str(len(body)))])
    return [body]


def install(aws: LocalAws) -> None:
    """Answer for the service, and register the knob."""
    aws.add_service("savingsplans", application)
    aws.add_knobs({"savings-plans": buy_savings_plan})
