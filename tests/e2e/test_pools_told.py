"""Whoever writes a pool is told at once, where they look, whether it will do: no pod has to wait for it first."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from joiner_local.kube_api import Object
from joiner_local.story import condition, until
from tests.e2e.world import SCENARIOS, Actor, deployment

pytestmark = pytest.mark.e2e

PROVISIONER = "/apis/karpenter.sh/v1alpha5/provisioners/default"


@pytest.fixture
def empty(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    yield deployed
    deployed.clean()


def manifest(scenario: str, provider: dict[str, Any]) -> Object:
    """The scenario's Provisioner with other words about its provider."""
    found: Object = next(
        each for each in yaml.safe_load_all((SCENARIOS / scenario).read_text()) if each["kind"] == "Provisioner"
    )
    found["spec"]["provider"] |= provider
    return found


def told(actor: Actor, status: str) -> dict[str, Any]:
    """The Provisioner's Ready condition once it is `status`."""

    def look() -> dict[str, Any] | None:
        found = actor.world.kube.get(PROVISIONER)
        return found if condition(found, "Ready") == status else None

    found = until(look, what=f"the Provisioner's Ready {status}", limit=20)
    return next(dict(each) for each in found["status"]["conditions"] if each["type"] == "Ready")


def test_a_good_pool_is_ready_before_any_pod_wants_it(empty: Actor) -> None:
    empty.apply("c-template.yaml")
    assert told(empty, "True")
    empty.assert_at_rest()


@pytest.mark.parametrize(
    ("provider", "named"),
    [
        ({"instanceProfile": "no-such-profile"}, "no-such-profile"),
        ({"subnetSelector": {"karpenter.sh/discovery": "nobody"}}, "nobody"),
    ],
    ids=["an instance profile that does not exist", "a selector that finds no subnet"],
)
def test_a_pool_that_cannot_work_says_so_and_works_once_it_is_mended(
    empty: Actor, provider: dict[str, Any], named: str
) -> None:
    empty.create(manifest("a-inline-provider.yaml", provider))
    assert named in told(empty, "False")["message"]

    empty.create(deployment("patient"))
    empty.create(manifest("a-inline-provider.yaml", {}))
    empty.wait_running(1, "patient")
    empty.assert_at_rest()
