"""Deleting the stack and changing its node roles disconnect no node: refused, drained, kept, and managed again."""

import copyreg
import json
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from infra.node_role_settings import NodeRoleSettings
from infra.settings import Settings, load_settings
from joiner_local.control_plane.kube_api import KubeApi, Object
from joiner_local.demo.change_watch import until
from joiner_local.demo.demonstration import DemoStack
from joiner_local.stack.cdk_deployment import Deployment
from joiner_local.stack.stack_control import REPOSITORY, LocalStack
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import NEVER_DISRUPTED, deployment, node_class, node_pool

pytestmark = [pytest.mark.e2e, pytest.mark.long("the command and each resource's deletion, against the local AWS")]
"""Four deployments and a stack of its own."""

CLUSTER: Final = "joiner-demo"
STACK: Final = f"joiner-{CLUSTER}"
OWN_ROLE: Final = f"joiner-node-{CLUSTER}-us-east-1"
GIVEN_ROLE: Final = f"KarpenterNodeRole-{CLUSTER}"
PATH: Final = f"/joiner/us-east-1/{CLUSTER}/"
FINALIZER: Final = "karpenter.sh/termination"


class StackOwner:
    """A local account: deployments and deletions of the stack, the command, and the remaining resources in IAM
    and EKS.
    """

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack

    def deploy(self, node_roles: NodeRoleSettings) -> Actor:
        """Deploy this checkout's app with these node roles."""
        settings = replace(load_settings(REPOSITORY / "clusters/local.yaml"), node_roles=node_roles)
        folder = self.stack.root / f"cdk-{time.monotonic_ns()}"
        synthesise(settings, folder)
        self.stack.deploy(Deployment(REPOSITORY, self.stack.root, say=print, synthesised=folder))
        return Actor(DemoStack.of(self.stack), self.stack.outputs())

    def delete(self) -> str:
        """Delete the stack; return its final status."""
        cloudformation = self.stack.client("cloudformation")
        stack_id = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]["StackId"]
        cloudformation.delete_stack(StackName=STACK)

        def ended() -> str | None:
            status = str(cloudformation.describe_stacks(StackName=stack_id)["Stacks"][0]["StackStatus"])
            return None if status.endswith("IN_PROGRESS") else status

        return until(ended, what="the deletion's end", limit=150)

    def reasons(self) -> list[str]:
        """Return why resources could not be deleted."""
        events = self.stack.client("cloudformation").describe_stack_events(StackName=STACK)["StackEvents"]
        failed = [
            each for each in events if each["ResourceStatus"] == "DELETE_FAILED" and each["LogicalResourceId"] != STACK
        ]
        return [str(each["ResourceStatusReason"]) for each in failed]

    def resources(self) -> dict[str, str]:
        """Return the status of every resource, by logical id."""
        pages = self.stack.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=STACK)
        return {
            each["LogicalResourceId"]: each["ResourceStatus"]
            for page in pages
            for each in page["StackResourceSummaries"]
        }

    def joiner(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command, as a user runs it."""
        environment = {**os.environ, **self.stack.environment()}
        command = [str(Path(sys.executable).parent / "joiner"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)

    def pause_value(self) -> str:
        return str(self.stack.client("ssm").get_parameter(Name=f"/joiner/{CLUSTER}/pause")["Parameter"]["Value"])

    def node_entries(self) -> set[str]:
        """Return the roles with an access entry for nodes."""
        eks = self.stack.client("eks")
        listed = eks.list_access_entries(clusterName=CLUSTER)["accessEntries"]
        described = [eks.describe_access_entry(clusterName=CLUSTER, principalArn=arn)["accessEntry"] for arn in listed]
        return {each["principalArn"].rpartition("/")[2] for each in described if each["type"] == "EC2_LINUX"}

    def profiles(self) -> dict[str, str]:
        """Return the role of each instance profile of a deployment, by the profile's name."""
        found = self.stack.client("iam").list_instance_profiles(PathPrefix=PATH)["InstanceProfiles"]
        return {each["InstanceProfileName"]: each["Roles"][0]["RoleName"] for each in found}

    def has_role(self, name: str) -> bool:
        try:
            self.stack.client("iam").get_role(RoleName=name)
        except ClientError:
            return False
        return True


def _as_dict(mapping: MappingProxyType[Any, Any]) -> Any:
    return dict, (dict(mapping),)


copyreg.pickle(MappingProxyType, _as_dict)
"""Tags of settings are read-only mappings, which cannot be pickled."""


def synthesise(settings: Settings, folder: Path) -> None:
    """Synthesise in a separate process, because jsii holds one app at a time."""
    code = (
        "import json,pickle,sys; import aws_cdk as cdk; from infra.cluster_stack import ClusterStack; from app import "
        "flags;"
        "app = cdk.App(context=flags(), outdir=sys.argv[1], analytics_reporting=False);"
        "ClusterStack(app, pickle.load(sys.stdin.buffer)); app.synth()"
    )
    environment = {**os.environ, "CDK_VALIDATION": "false", "PYTHONPATH": str(REPOSITORY)}
    subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        input=pickle.dumps(settings),
        env=environment,
        cwd=REPOSITORY,
        check=True,
    )


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackOwner]:
    with LocalStack(tmp_path_factory.mktemp("uninstall"), boot_seconds=1.0, say=print) as stack:
        yield StackOwner(stack)


def pool() -> Object:
    return node_pool("default", disruption=NEVER_DISRUPTED, terminationGracePeriod="30s")


def class_with(role: str) -> Object:
    manifest = node_class("default")
    return {**manifest, "spec": {**manifest["spec"], "role": role}}


def ready(nodes: Sequence[Object]) -> list[str]:
    """Return the names of the Ready nodes without NoSchedule taints."""
    return sorted(
        node["metadata"]["name"]
        for node in nodes
        if any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])
        and not any(taint["effect"] in ("NoSchedule", "NoExecute") for taint in node["spec"].get("taints", ()))
    )


def renew_lease(kube: KubeApi, node: str) -> str:
    """Return when the node's kubelet last renewed its lease."""
    return str(kube.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}")["spec"]["renewTime"])


def held(manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of objects with Joiner's finalizers, owners or taints."""
    return [
        each["metadata"]["name"]
        for each in manifests
        if FINALIZER in each["metadata"].get("finalizers", ())
        or any(owner["kind"] in ("NodeClaim", "NodePool") for owner in each["metadata"].get("ownerReferences", ()))
    ]


@pytest.fixture(scope="module")
def running(account: StackOwner) -> Actor:
    """Two nodes with the role that the deployment created."""
    actor = account.deploy(NodeRoleSettings())
    actor.create(class_with(OWN_ROLE), pool(), deployment("web", replicas=2, cpu="1500m"))
    actor.wait_running(2, "web")
    until(lambda: len(ready(actor.nodes())) == len(actor.nodes()) > 0, what="all nodes open", limit=60)
    return actor


def test_a_change_of_node_roles_leaves_role_profile_and_access_entry_of_running_nodes(
    account: StackOwner, running: Actor
) -> None:
    before, profiles = ready(running.nodes()), account.profiles()
    assert set(profiles.values()) == {OWN_ROLE}

    account.deploy(NodeRoleSettings((GIVEN_ROLE,)))

    assert {OWN_ROLE, GIVEN_ROLE} <= account.node_entries()
    assert account.has_role(OWN_ROLE)
    assert account.profiles().items() >= profiles.items()
    assert set(account.profiles().values()) == {OWN_ROLE, GIVEN_ROLE}
    still_reports(running, before)


def still_reports(actor: Actor, nodes: Sequence[str]) -> None:
    """Assert that the nodes are Ready and their kubelets report, which needs credentials and an access entry."""
    reported = {node: renew_lease(actor.world.kube, node) for node in nodes}
    until(
        lambda: all(renew_lease(actor.world.kube, node) > since for node, since in reported.items()),
        what="a report of every node",
        limit=60,
    )
    assert ready(actor.nodes()) == list(nodes)


def test_deletion_is_refused_while_nodes_run_and_nothing_is_removed(account: StackOwner, running: Actor) -> None:
    claims = [claim["metadata"]["name"] for claim in running.claims()]
    before = account.resources()

    assert account.delete() == "DELETE_FAILED"

    (reason,) = account.reasons()
    assert any(claim in reason for claim in claims)
    assert f"joiner uninstall --cluster {CLUSTER} --region us-east-1 --nodes drain" in reason
    after = account.resources()
    assert after.keys() == before.keys()
    (failed,) = (name for name, status in after.items() if status.startswith("DELETE"))
    assert re.fullmatch(r"DeletionGuard[0-9A-F]{8}", failed)
    assert account.pause_value() == "false"
    running.create(class_with(GIVEN_ROLE))  # the settings do not allow the other one any more
    running.scale("web", 4)
    running.wait_running(4, "web")  # Joiner works


def test_after_uninstall_keep_the_stack_is_deleted_and_the_nodes_stay_ready(
    account: StackOwner, running: Actor
) -> None:
    until(lambda: len(ready(running.nodes())) == len(running.nodes()), what="all nodes open", limit=60)
    nodes, instances = ready(running.nodes()), {each["InstanceId"] for each in running.instances()}

    result = account.joiner("uninstall", "--nodes", "keep")
    assert result.returncode == 0, result.stderr
    assert f"{len(instances)} nodes will continue to run without it" in result.stdout
    assert account.delete() == "DELETE_COMPLETE"

    assert {each["InstanceId"] for each in running.instances()} == instances
    assert OWN_ROLE in account.node_entries()
    assert account.has_role(OWN_ROLE)
    assert OWN_ROLE in account.profiles().values()
    assert held([*running.claims(), *running.nodes()]) == []
    assert len(running.claims()) == len(nodes)
    assert running.world.kube.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeclaims.karpenter.sh")
    still_reports(running, nodes)


def test_a_new_deployment_manages_the_nodes_again_and_uninstall_drain_removes_them(
    account: StackOwner, running: Actor
) -> None:
    assert running.instances()

    actor = account.deploy(NodeRoleSettings((GIVEN_ROLE,)))
    nodes = ready(actor.nodes())
    assert nodes

    refused = account.delete()
    assert refused == "DELETE_FAILED"
    result = account.joiner("uninstall", "--nodes", "drain", "--timeout", "3")

    assert result.returncode == 0, result.stderr
    assert "No instance of Joiner is left" in result.stdout
    assert f"of {len(nodes)} nodes gone" in result.stderr
    until(actor.is_empty, what="claims and nodes gone", limit=60)
    assert actor.running("web") == 0
    time.sleep(5)
    assert actor.instances() == []  # pending pods, and nothing is launched for them
    assert account.delete() == "DELETE_COMPLETE"


@pytest.mark.usefixtures("running")
def test_after_the_last_node_nothing_of_the_deployment_is_left(account: StackOwner) -> None:
    assert account.profiles() == {}
    assert not account.has_role(OWN_ROLE)
    assert account.has_role(GIVEN_ROLE)
    assert account.node_entries() == {GIVEN_ROLE}
    assert json.dumps(account.stack.client("dynamodb").list_tables()["TableNames"]) == "[]"
