"""The doorbell's routes, throttles and reserved concurrency."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from infra.settings import Settings
from joiner.lifecycle.ring_limit import RingLimit
from tests.infra.conftest import Synthesis, Synthesise, function_of


def test_a_stack_reserves_no_concurrency_by_default_so_that_an_account_with_a_small_quota_can_deploy_it(
    example: Synthesis,
) -> None:
    assert _set_aside(example) == {}


def test_the_routes_of_the_doorbell_have_separate_throttles(example: Synthesis) -> None:
    stage = example.one("AWS::ApiGatewayV2::Stage", "Doorbell")["Properties"]

    assert stage["RouteSettings"] == {
        "POST /ring/{token}/pods": {"ThrottlingRateLimit": 60, "ThrottlingBurstLimit": 100},
        "POST /ring/{token}/nodes": {"ThrottlingRateLimit": 25, "ThrottlingBurstLimit": 50},
        "POST /ring/{token}/pools": {"ThrottlingRateLimit": 5, "ThrottlingBurstLimit": 5},
        "POST /ring/{token}/deletions": {"ThrottlingRateLimit": 25, "ThrottlingBurstLimit": 50},
    }
    assert {each["Properties"]["RouteKey"] for each in example.resources("AWS::ApiGatewayV2::Route").values()} == set(
        stage["RouteSettings"]
    )


@pytest.mark.parametrize(("reserved", "burst"), [(115, 100), (1000, 100), (65, 50), (17, 2)])
def test_without_a_burst_in_the_settings_that_of_pods_leaves_reserved_concurrency_for_ten_nodes(
    synthesise: Synthesise, example_settings: Settings, reserved: int, burst: int
) -> None:
    made = synthesise(replace(example_settings, doorbell=replace(example_settings.doorbell, concurrency=reserved)))

    throttles = made.one("AWS::ApiGatewayV2::Stage", "Doorbell")["Properties"]["RouteSettings"]
    bursts = [throttles[f"POST /ring/{{token}}/{kind}"]["ThrottlingBurstLimit"] for kind in ("pods", "pools")]
    assert (_set_aside(made), bursts) == ({"ring_doorbell": reserved}, [burst, 5])
    assert reserved - sum(bursts) >= 10


def test_of_a_thousand_pending_pods_no_call_is_refused(example: Synthesis) -> None:
    """kube-scheduler's client writes a hundred events at once, and then 50 a second (its default QPS and burst)."""
    stage = example.one("AWS::ApiGatewayV2::Stage", "Doorbell")["Properties"]
    throttle = stage["RouteSettings"]["POST /ring/{token}/pods"]
    bucket = RingLimit(per_second=throttle["ThrottlingRateLimit"], at_once=throttle["ThrottlingBurstLimit"])
    start = datetime(2026, 11, 21, 5, 17, tzinfo=UTC)
    events = [start + timedelta(milliseconds=20 * max(0, number - 99)) for number in range(1000)]

    refused = [event for event in events if not bucket.allows(event)]

    assert refused == []


def _set_aside(made: Synthesis) -> dict[str, int]:
    return {
        function_of(function): function["Properties"]["ReservedConcurrentExecutions"]
        for function in made.resources("AWS::Lambda::Function").values()
        if "ReservedConcurrentExecutions" in function["Properties"]
    }
