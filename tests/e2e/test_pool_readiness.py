"""The Ready condition of a pool is set at once when it is written, without a pending pod."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import condition, until
from tests.e2e.stack_actions import SCENARIOS, Actor
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e

PROVISIONER = "/apis/karpenter.sh/v1alpha5/provisioners/default"


@pytest.fixture
def empty(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    yield deployed
    deployed.clean()


def manifest(scenario: str, provider: dict[str, Any]) -> Object:
    """Return the scenario's Provisioner with another provider."""
    found: Object = next(
        each for each in yaml.safe_load_all((SCENARIOS / scenario).read_text()) if each["kind"] == "Provisioner"
    )
    found["spec"]["provider"] |= provider
    return found


def readiness(actor: Actor, status: str) -> dict[str, Any]:
    """Return the Provisioner's Ready condition once it is `status`."""

    def look() -> dict[str, Any] | None:
        found = actor.world.kube.get(PROVISIONER)
        return found if condition(found, "Ready") == status else None

    found = until(look, what=f"the Provisioner's Ready {status}", limit=20)
    return next(dict(each) for each in found["status"]["conditions"] if each["type"] == "Ready")


def test_a_valid_pool_is_ready_before_a_pod_needs_it(empty: Actor) -> None:
    empty.apply("c-template.yaml")
    assert readiness(empty, "True")
    empty.assert_at_rest()


@pytest.mark.parametrize(
    ("provider", "named"),
    [
        ({"instanceProfile": "no-such-profile"}, "no-such-profile"),
        ({"subnetSelector": {"karpenter.sh/discovery": "nobody"}}, "nobody"),
    ],
    ids=["an instance profile that does not exist", "a selector that finds no subnet"],
)
def test_an_unusable_pool_is_reported_and_becomes_ready_after_it_is_fixed(
    empty: Actor, provider: dict[str, Any], named: str
) -> None:
    empty.create(manifest("a-inline-provider.yaml", provider))
    assert named in readiness(empty, "False")["message"]

    empty.create(deployment("patient"))
    empty.create(manifest("a-inline-provider.yaml", {}))
    empty.wait_running(1, "patient")
    empty.assert_at_rest()
