"""The Ready condition of a pool is set at once when it is written, without a pending pod."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from joiner.cluster.quantities import parse_amount
from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import condition, until
from tests.e2e.stack_actions import SCENARIOS, Actor
from tests.e2e.stack_manifests import deployment
from tests.e2e.user_launch_template import create_user_template

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

    found = until(look, what=f"the Provisioner's Ready {status}", limit=90)
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


def test_a_pool_that_names_a_launch_template_gives_nodes_with_its_content(empty: Actor) -> None:
    ec2, name = empty.world.client("ec2"), "nodes-of-ours"
    provisioner = manifest("a-inline-provider.yaml", {})
    provisioner["spec"]["provider"] = {"launchTemplate": name}
    empty.create(provisioner)
    assert f"there is no launch template {name}" in readiness(empty, "False")["message"]

    user_data = create_user_template(empty, name)
    try:
        empty.create(deployment("patient"))
        empty.wait_running(1, "patient")
        empty.assert_at_rest()
    finally:
        ec2.delete_launch_template(LaunchTemplateName=name)

    ((instance,), (node,)) = (empty.instances(), empty.nodes())
    asked = {"InstanceId": instance["InstanceId"], "Attribute": "userData"}
    assert base64.b64decode(ec2.describe_instance_attribute(**asked)["UserData"]["Value"]) == user_data
    assert instance["IamInstanceProfile"]["Arn"].endswith("/KarpenterNodeInstanceProfile-joiner-demo")
    volume = instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    assert ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["Size"] == 33
    assert node["metadata"]["labels"]["team"] == "ours"
    (claim,) = empty.claims()
    assert 32 * 2**30 < parse_amount(claim["status"]["capacity"]["ephemeral-storage"]) <= 33 * 2**30
