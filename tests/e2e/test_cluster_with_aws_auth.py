"""A cluster whose authentication mode is CONFIG_MAP: nodes and functions get in because aws-auth maps their roles."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from infra.settings import load_settings
from joiner_local.control_plane.kube_api import KubeApi
from joiner_local.demo.change_watch import until
from joiner_local.demo.demonstration import DemoStack
from joiner_local.stack.cdk_deployment import Deployment
from joiner_local.stack.stack_control import REPOSITORY, LocalStack
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import NEVER_DISRUPTED, deployment, node_class, node_pool
from tests.e2e.test_uninstall import StackOwner, synthesise

pytestmark = pytest.mark.e2e

CLUSTER = "joiner-demo"
AWS_AUTH = "/api/v1/namespaces/kube-system/configmaps/aws-auth"
NODE_ROLE = "arn:aws:iam::123456789012:role/KarpenterNodeRole-joiner-demo"
PEOPLE = "# the platform team\n- rolearn: arn:aws:iam::123456789012:role/ops\n  username: ops\n  groups: [viewers]\n"


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackOwner]:
    """A cluster without access entries, whose aws-auth maps its administrator and people."""
    with LocalStack(tmp_path_factory.mktemp("aws-auth"), boot_seconds=1.0, say=print) as stack:
        stack.knob("eks", {"name": CLUSTER, "authenticationMode": "CONFIG_MAP"})
        caller = stack.client("sts").get_caller_identity()["Arn"]
        users = yaml.safe_dump([{"userarn": caller, "username": "admin", "groups": ["system:masters"]}])
        manifest = {"metadata": {"name": "aws-auth"}, "data": {"mapRoles": PEOPLE, "mapUsers": users}}
        stack.kube().create(AWS_AUTH.rpartition("/")[0], manifest)
        yield StackOwner(stack)


def roles(kube: KubeApi) -> list[str]:
    found = yaml.safe_load(kube.get(AWS_AUTH)["data"]["mapRoles"])
    return [str(each["rolearn"]) for each in found]


@pytest.mark.long("aws-auth in unit tests and in templates")
def test_a_node_and_the_functions_get_in_by_aws_auth_only_and_leave_it_at_the_end(
    account: StackOwner, tmp_path: Path
) -> None:
    admitted = account.joiner("admit-installer", "--cluster", CLUSTER, "--region", "us-east-1")
    installer = "arn:aws:iam::123456789012:role/joiner-installer-joiner-demo-us-east-1"
    assert (admitted.returncode, admitted.stdout) == (0, f"{installer} is now an administrator of {CLUSTER}\n")

    settings = replace(load_settings(REPOSITORY / "clusters/local.yaml"), authentication_mode="CONFIG_MAP")
    settings = replace(settings, node_roles=replace(settings.node_roles, manage_node_access_entry=True))
    synthesise(settings, tmp_path / "cdk.out")
    stack = account.stack
    stack.deploy(Deployment(REPOSITORY, stack.root, say=print, synthesised=tmp_path / "cdk.out"))
    kube, actor = stack.kube(), Actor(DemoStack.of(stack), stack.outputs())
    text = kube.get(AWS_AUTH)["data"]["mapRoles"]
    assert text.startswith(PEOPLE)
    assert {installer, NODE_ROLE} <= set(roles(kube))

    # A node without its mapping stays outside
    kube.merge(AWS_AUTH, {"data": {"mapRoles": text.replace(NODE_ROLE, f"{NODE_ROLE}-other")}})
    actor.create(node_class("default"), node_pool("default", disruption=NEVER_DISRUPTED), deployment("web"))
    until(lambda: len(actor.instances()) == 1, what="an instance", limit=60)
    assert not_joined(actor)
    kube.merge(AWS_AUTH, {"data": {"mapRoles": text}})
    actor.wait_running(1, "web", limit=90)

    # A function without its mapping fails; nothing but the mapping changes
    kube.merge(AWS_AUTH, {"data": {"mapRoles": PEOPLE}})
    until(lambda: actor.sweep() == "FAILED", what="a sweep that is refused", limit=150)
    kube.merge(AWS_AUTH, {"data": {"mapRoles": text}})
    until(lambda: actor.sweep() == "SUCCEEDED", what="a sweep that gets in again", limit=150)

    kept = account.joiner("uninstall", "--cluster", CLUSTER, "--region", "us-east-1", "--nodes", "keep")
    assert kept.returncode == 0, kept.stderr
    assert account.delete() == "DELETE_COMPLETE", account.reasons()
    assert roles(kube) == ["arn:aws:iam::123456789012:role/ops", NODE_ROLE]  # its node still runs
    assert kube.get(AWS_AUTH)["data"]["mapRoles"].startswith(PEOPLE)


def not_joined(actor: Actor) -> bool:
    """Return whether the instance still has no node after the time of several boots."""
    import time

    time.sleep(6)
    return actor.nodes() == []
