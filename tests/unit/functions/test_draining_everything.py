"""`joiner uninstall --nodes drain`: the sweep retires every claim, and nothing is launched."""

from datetime import timedelta
from typing import Any

import boto3
import pytest
from moto import mock_aws

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import list_claims
from joiner.adapters.pause import Pause
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.names import ACTING, DRAINING, KEEPING, PAUSED, pause_parameter
from tests.unit.functions.retirement_execution import RetirementExecution
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending


@pytest.fixture
def standing(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster with three nodes with a pod each, whose pool allows no disruption."""
    cluster.prepare(pending("web-1"), pending("web-2"), pending("web-3"))
    never = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}
    cluster.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": never}})
    cluster.scale_up("up-1")
    cluster.now += timedelta(hours=1)
    return cluster


def retired(cluster: SimulatedCluster, number: int) -> list[dict[str, Any]]:
    cluster.now += timedelta(seconds=60)
    return list(cluster.survey(f"s{number}")[1]["retire"])


def test_every_claim_is_retired_whatever_the_budgets_of_its_pool_and_none_before(
    standing: SimulatedCluster,
) -> None:
    assert retired(standing, 1) == []

    standing.pause.draining = True

    claims = list_claims(standing.kube).claims
    assert claims
    assert retired(standing, 2) == [
        {"claim": claim.name, "reason": "uninstalled", "instance": claim.instance_id, "notBefore": 0}
        for claim in claims
    ]


def test_a_claim_that_is_retired_already_is_not_retired_twice_and_a_drain_that_is_stopped_goes_no_further(
    standing: SimulatedCluster,
) -> None:
    first, *others = list_claims(standing.kube).claims
    standing.pause.draining = True
    RetirementExecution(standing, "retire-1").run(
        RetirementRequest(first.name, RetirementReason.UNINSTALLED, first.instance_id)
    )

    assert [each["claim"] for each in retired(standing, 1)] == [claim.name for claim in others]

    standing.pause.draining = False
    assert retired(standing, 2) == []


def test_the_event_has_the_reason_of_the_removal(standing: SimulatedCluster) -> None:
    first = list_claims(standing.kube).claims[0]

    RetirementExecution(standing, "retire-1").run(
        RetirementRequest(first.name, RetirementReason.UNINSTALLED, first.instance_id)
    )

    notes = {each["note"] for each in standing.kube.all(kinds.EVENTS) if each["regarding"]["name"] == first.name}
    assert "Retiring: Joiner is being uninstalled (joiner uninstall --nodes drain)" in notes


@pytest.mark.parametrize(
    ("value", "stops_launches", "stops_retirement"),
    [(ACTING, False, False), (PAUSED, True, True), (DRAINING, True, False), (KEEPING, True, True)],
)
def test_what_each_value_of_the_parameter_stops(value: str, stops_launches: bool, stops_retirement: bool) -> None:
    with mock_aws():
        client = boto3.client("ssm", region_name="eu-west-1", aws_access_key_id="test", aws_secret_access_key="test")
        client.put_parameter(Name=pause_parameter("prod"), Value=value, Type="String", Overwrite=True)

        assert Pause(client, "prod", launching=True).on() is stops_launches
        assert Pause(client, "prod").on() is stops_retirement
        assert Pause(client, "prod").value() == value
