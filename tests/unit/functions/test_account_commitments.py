"""Commitments of the account in a refresh: what a failed call leaves, and how often it is reported."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from functions.refresh_catalogue.account_commitments import AccountReader
from joiner.adapters.account_billing import DOCUMENT, get_account_commitments
from joiner.adapters.store import Store
from joiner.catalogue.commitments import Machine
from joiner.catalogue.reserved_instances_and_savings_plans import (
    OTHER_INSTANCES,
    RESERVED_INSTANCES,
    SAVINGS_PLANS,
    AccountCommitments,
    ReservedInstances,
    SavingsPlan,
)
from tests.unit.functions.simulated_cluster import SimulatedCluster

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
END = datetime(2027, 11, 23, tzinfo=UTC)
RESERVED = ReservedInstances("m5.large", 2, "", int(END.timestamp()))
PLAN = SavingsPlan("plan-1", 0.5, rates={"m5.large": 0.06}, until=int(END.timestamp()))


def denied(action: str, number: int) -> ClientError:
    message = f"You are not authorized to perform: {action}. Encoded authorization failure message: {number}"
    return ClientError({"Error": {"Code": "UnauthorizedOperation", "Message": message}}, action)


@dataclass
class FakeBilling:
    """EC2 and Savings Plans of an account; `failing` are the calls that fail, with their error."""

    failing: dict[str, Exception] = field(default_factory=dict)

    def _answer(self, call: str, answer: dict[str, Any]) -> dict[str, Any]:
        if call in self.failing:
            raise self.failing[call]
        return answer

    def describe_reserved_instances(self, **_asked: Any) -> dict[str, Any]:
        row = {"InstanceType": "m5.large", "InstanceCount": 2, "Scope": "Region", "End": END, "State": "active"}
        return self._answer("reserved", {"ReservedInstances": [{**row, "ProductDescription": "Linux/UNIX"}]})

    def describe_savings_plans(self, **_asked: Any) -> dict[str, Any]:
        row = {"savingsPlanId": "plan-1", "state": "active", "savingsPlanType": "Compute", "commitment": "0.5"}
        return self._answer("plans", {"savingsPlans": [{**row, "end": "2027-11-23T00:00:00.000Z"}]})

    def describe_savings_plan_rates(self, **_asked: Any) -> dict[str, Any]:
        properties = [{"name": "instanceType", "value": "m5.large"}, {"name": "region", "value": "eu-west-1"}]
        row = {"rate": "0.06", "unit": "Hrs", "usageType": "EU-BoxUsage:m5.large", "properties": properties}
        return self._answer("rates", {"searchResults": [row]})

    def get_paginator(self, _operation: str) -> "FakeBilling":
        return self

    def paginate(self, **_asked: Any) -> list[Mapping[str, Any]]:
        instance = {"InstanceId": "i-1", "InstanceType": "m5.large", "Placement": {"AvailabilityZone": "eu-west-1a"}}
        return [self._answer("instances", {"Reservations": [{"Instances": [instance]}]})]


@pytest.fixture
def store(cluster: SimulatedCluster) -> Store:
    return cluster.store


def read(account: FakeBilling, store: Store, hours: int = 0) -> AccountCommitments:
    return AccountReader(account, account, "eu-west-1", "prod").read(store, NOW + timedelta(hours=hours))


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(one.levelname, one.getMessage()) for one in caplog.records]


def test_every_part_is_read_and_stored_with_its_time(store: Store) -> None:
    found = read(FakeBilling(), store)

    at = int(NOW.timestamp())
    assert found == AccountCommitments(
        (RESERVED,),
        (PLAN,),
        (Machine("i-1", "m5.large", "eu-west-1a"),),
        {RESERVED_INSTANCES: at, SAVINGS_PLANS: at, OTHER_INSTANCES: at},
    )
    assert get_account_commitments(store) == found


@pytest.mark.parametrize("call", ["plans", "rates"])
def test_what_cannot_be_read_stays_with_its_time(store: Store, call: str) -> None:
    read(FakeBilling(), store)

    found = read(FakeBilling({call: EndpointConnectionError(endpoint_url="https://example.com")}), store, hours=1)

    assert (found.plans, set(found.failures)) == ((PLAN,), {SAVINGS_PLANS})
    first, second = int(NOW.timestamp()), int(NOW.timestamp()) + 3600
    assert found.read_at == {RESERVED_INSTANCES: second, SAVINGS_PLANS: first, OTHER_INSTANCES: second}
    assert get_account_commitments(store) == found


def test_a_denied_call_is_logged_once_and_once_when_it_succeeds_again(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    account = FakeBilling()
    for number in range(3):
        account.failing = {"reserved": denied("ec2:DescribeReservedInstances", number)}
        assert read(account, store, hours=number).reserved == ()
    account.failing = {}
    assert read(account, store, hours=3).reserved == (RESERVED,)

    warning, info = lines(caplog)
    assert warning[0] == "WARNING"
    assert warning[1].startswith(
        "the account's reserved instances cannot be read: plans use those of the settings only. This line is not"
    )
    assert info == ("INFO", "the account's reserved instances can be read again")


def test_another_error_is_logged_again_with_the_age_of_what_is_used(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    account = FakeBilling()
    read(account, store)
    account.failing = {"plans": denied("savingsplans:DescribeSavingsPlans", 1)}
    read(account, store, hours=1)
    account.failing = {"plans": EndpointConnectionError(endpoint_url="https://example.com")}
    read(account, store, hours=2)

    found = lines(caplog)
    assert [level for level, _ in found] == ["WARNING", "WARNING"]
    assert all("plans use those read at 2026-11-23T12:00:00Z, until their terms end" in text for _, text in found)


def test_without_knowledge_of_other_instances_nothing_of_the_account_is_used(store: Store) -> None:
    found = read(FakeBilling({"instances": denied("ec2:DescribeInstances", 1)}), store)

    assert (found.reserved, found.owned(0)) == ((RESERVED,), ((), ()))


def test_a_document_that_cannot_be_read_is_replaced(store: Store) -> None:
    store.put(DOCUMENT, {"reserved": "none"})

    assert get_account_commitments(store) == AccountCommitments()
    assert read(FakeBilling(), store) == get_account_commitments(store)
