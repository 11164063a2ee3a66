"""The doorbell's routes, throttles and reserved concurrency."""

from dataclasses import replace

from infra.settings import Settings
from tests.infra.conftest import Synthesis, Synthesise, function_of


def test_an_account_with_a_small_quota_reserves_no_concurrency(
    synthesise: Synthesise, example: Synthesis, example_settings: Settings
) -> None:
    small = synthesise(replace(example_settings, doorbell=replace(example_settings.doorbell, concurrency=None)))

    assert _set_aside(example) == {"ring_doorbell": 40}
    assert _set_aside(small) == {}


def test_the_routes_of_the_doorbell_have_separate_throttles(example: Synthesis) -> None:
    stage = example.one("AWS::ApiGatewayV2::Stage", "Doorbell")["Properties"]

    assert stage["RouteSettings"] == {
        "POST /ring/{token}/pods": {"ThrottlingRateLimit": 60, "ThrottlingBurstLimit": 25},
        "POST /ring/{token}/nodes": {"ThrottlingRateLimit": 25, "ThrottlingBurstLimit": 50},
        "POST /ring/{token}/pools": {"ThrottlingRateLimit": 5, "ThrottlingBurstLimit": 5},
        "POST /ring/{token}/deletions": {"ThrottlingRateLimit": 25, "ThrottlingBurstLimit": 50},
    }
    assert {each["Properties"]["RouteKey"] for each in example.resources("AWS::ApiGatewayV2::Route").values()} == set(
        stage["RouteSettings"]
    )


def test_bursts_of_pods_and_pools_leave_concurrency_for_ten_nodes(example: Synthesis) -> None:
    stage = example.one("AWS::ApiGatewayV2::Stage", "Doorbell")["Properties"]
    loudest = [
        stage["RouteSettings"][f"POST /ring/{{token}}/{kind}"]["ThrottlingBurstLimit"] for kind in ("pods", "pools")
    ]

    assert _set_aside(example)["ring_doorbell"] - sum(loudest) == 10


def _set_aside(made: Synthesis) -> dict[str, int]:
    return {
        function_of(function): function["Properties"]["ReservedConcurrentExecutions"]
        for function in made.resources("AWS::Lambda::Function").values()
        if "ReservedConcurrentExecutions" in function["Properties"]
    }
