"""`joiner accept` as a user runs it, on a deployed stack: all steps, a failure, and an interruption."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import node_class, node_pool

pytestmark = pytest.mark.e2e

CLUSTER: Final = "joiner-demo"
ACCOUNT: Final = "123456789012"
ADMINISTRATOR: Final = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
STEPS: Final = (
    "deployment",
    "cluster-access",
    "launch-template",
    "run-instances",
    "create-fleet",
    "token",
    "ring",
    "node-up",
    "node-down",
    "cleanup",
)
PERMISSIONS: Final = (
    "cloudformation:DescribeStacks",
    "dynamodb:GetItem",
    "ec2:DescribeInstances",
    "eks:DescribeCluster",
    "lambda:InvokeFunction",
    "ssm:GetParameter",
    "states:DescribeExecution",
    "states:GetExecutionHistory",
    "states:ListExecutions",
    "states:StartExecution",
)


@pytest.fixture(scope="module")
def person(deployed: Actor) -> Mapping[str, str]:
    """A user's role with the documented permissions, and cluster admin by an access entry."""
    iam, sts, eks = (deployed.world.client(name) for name in ("iam", "sts", "eks"))
    trust = {
        "Statement": [
            {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
        ]
    }
    arn = iam.create_role(RoleName="person", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    allowed = {
        "Statement": [{"Effect": "Allow", "Action": list(PERMISSIONS), "Resource": "*"}],
        "Version": "2012-10-17",
    }
    iam.put_role_policy(RoleName="person", PolicyName="accept", PolicyDocument=json.dumps(allowed))
    eks.create_access_entry(clusterName=CLUSTER, principalArn=arn)
    eks.associate_access_policy(
        clusterName=CLUSTER, principalArn=arn, policyArn=ADMINISTRATOR, accessScope={"type": "cluster"}
    )
    credentials = sts.assume_role(RoleArn=arn, RoleSessionName="person")["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": credentials["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": credentials["SecretAccessKey"],
        "AWS_SESSION_TOKEN": credentials["SessionToken"],
    }


@pytest.fixture
def classed(deployed: Actor) -> Iterator[Actor]:
    """An empty cluster with a node class, and another pool that names it."""
    deployed.clean()
    deployed.create(node_class("default"), node_pool("others", class_name="default"))
    deployed.rest()
    yield deployed
    deployed.clean()


def command(actor: Actor, person: Mapping[str, str], *arguments: str) -> tuple[list[str], dict[str, str]]:
    joiner = str(Path(sys.executable).parent / "joiner")
    return [joiner, "accept", *arguments], {**os.environ, **actor.world.stack.environment(), **person}


def accept(actor: Actor, person: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    words, environment = command(actor, person, *arguments)
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)


def outcomes(result: Mapping[str, Any]) -> dict[str, str]:
    return {each["step"]: each["outcome"] for each in result["steps"]}


def left(actor: Actor) -> list[str]:
    """Return the objects of acceptance runs that are left."""
    pools = [pool["metadata"]["name"] for pool in actor.world.kube.items("/apis/karpenter.sh/v1/nodepools")]
    pods = [pod["metadata"]["name"] for pod in actor.pods()]
    return [name for name in (*pools, *pods) if name.startswith("joiner-accept")] + [
        each["InstanceId"] for each in actor.instances()
    ]


def test_every_step_passes_and_nothing_is_left(classed: Actor, person: Mapping[str, str], tmp_path: Path) -> None:
    report = tmp_path / "accept.json"

    answer = accept(classed, person, "--report", str(report), "-o", "json")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    result = json.loads(answer.stdout)
    assert result["passed"] is True
    assert outcomes(result) == dict.fromkeys(STEPS, "shown")
    assert json.loads(report.read_text()) == result
    by_name = {each["step"]: each["message"] for each in result["steps"]}
    assert by_name["run-instances"] == "EC2 allows the request (DryRunOperation)"
    assert re.search(
        r"the pod runs after \d+ s on t\w+\.(small|medium) in us-east-1\w \(0\.0\d+ US\$ an hour\)", by_name["node-up"]
    )
    assert left(classed) == []
    for secret in (ACCOUNT, person["AWS_SECRET_ACCESS_KEY"], person["AWS_SESSION_TOKEN"], "k8s-aws-v1."):
        assert secret not in answer.stdout + answer.stderr + report.read_text()


def test_a_paused_joiner_fails_the_first_step_and_skips_what_needs_it(
    classed: Actor, person: Mapping[str, str]
) -> None:
    ssm = classed.world.client("ssm")
    ssm.put_parameter(Name=f"/joiner/{CLUSTER}/pause", Value="true", Overwrite=True)
    try:
        answer = accept(classed, person, "-o", "yaml")
    finally:
        ssm.put_parameter(Name=f"/joiner/{CLUSTER}/pause", Value="false", Overwrite=True)

    assert answer.returncode == 2
    assert "the pause parameter is 'true'" in answer.stdout
    assert f"joiner resume {CLUSTER}" in answer.stdout
    assert answer.stdout.count("outcome: skipped") == 8
    assert "needs deployment" in answer.stdout
    assert left(classed) == []


def test_a_refused_dry_run_names_the_remedy_and_launches_no_node(classed: Actor, person: Mapping[str, str]) -> None:
    classed.knob("faults/set", caller="launch_instances", call="ec2 RunInstances", how="refused", times=None)
    try:
        answer = accept(classed, person, "-o", "json")
    finally:
        assert classed.knob("faults/set")["struck"] > 0

    assert answer.returncode == 2, answer.stdout + answer.stderr
    result = json.loads(answer.stdout)
    assert outcomes(result) == {
        **dict.fromkeys(STEPS, "shown"),
        "run-instances": "failed",
        "node-up": "skipped",
        "node-down": "skipped",
    }
    (refused,) = (each for each in result["steps"] if each["outcome"] == "failed")
    assert "decode-authorization-message" in refused["remedy"]
    assert left(classed) == []


@pytest.mark.long("an interrupted run in unit tests")
def test_an_interrupted_run_removes_its_objects(classed: Actor, person: Mapping[str, str]) -> None:
    words, environment = command(classed, person)
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        until(lambda: any(each.startswith("i-") for each in left(classed)), what="the node's instance", limit=120)
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=120)

    assert running.returncode == 130, out + err
    assert re.search(r"node-up +failed +interrupted", out)
    assert re.search(r"node-down +skipped +the run was interrupted", out)
    assert re.search(r"cleanup +shown +NodeClaim, Node and instance are gone", out)
    time.sleep(1)
    assert left(classed) == []


def test_a_dry_run_creates_nothing(classed: Actor, person: Mapping[str, str]) -> None:
    before = len(classed.world.client("ec2").describe_launch_templates()["LaunchTemplates"])

    answer = accept(classed, person, "--dry-run")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert [line.split()[0] for line in answer.stdout.splitlines()] == [*STEPS[:6], "cleanup"]
    assert left(classed) == []
    assert len(classed.world.client("ec2").describe_launch_templates()["LaunchTemplates"]) == before
