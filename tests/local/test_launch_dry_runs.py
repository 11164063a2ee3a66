"""Dry runs of a launch on the local EC2: each request is answered as a dry run, and nothing is created."""

from typing import Any

import pytest

from functions.launch_instances.launch_dry_runs import send_dry_runs
from joiner.launching import Launch
from joiner.pools.codecs.declared_objects import read_node_class, read_node_pool
from joiner_cli.acceptance import acceptance_objects
from joiner_cli.acceptance.dry_run_launch import build_dry_run_launch, read_resolved_class
from joiner_local.aws.account_setup.cluster_network import seed_network
from tests.local.launch_fixtures import LaunchPad
from tests.local.running_aws import RunningAws

STEPS = {"launch-template", "run-instances", "create-fleet"}


@pytest.fixture
def launch(local_aws: RunningAws) -> Launch:
    """Return a launch as `joiner accept` makes it from a resolved class."""
    network = seed_network(local_aws.endpoint, "joiner-demo")
    pad = LaunchPad(local_aws.client("ec2"), local_aws.client("ssm"), network, "none")
    subnets = [{"id": subnet, "zone": zone} for zone, subnet in sorted(network.subnets.items())]
    status = {
        "subnets": subnets,
        "securityGroups": [{"id": network.security_group}],
        "amis": [{"id": pad.image(), "requirements": []}],
        "instanceProfile": network.instance_profile,
    }
    spec = {
        "role": "KarpenterNodeRole-joiner-demo",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"a": "b"}}],
        "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
    }
    manifest = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": spec,
        "status": status,
    }
    pool = read_node_pool(acceptance_objects.build_node_pool("1", "default"))
    return build_dry_run_launch(
        read_node_class(manifest),
        pool,
        read_resolved_class(manifest),
        cluster="joiner-demo",
        run="1",
        types=acceptance_objects.TYPES[2:3],
    )


def counts(ec2: Any) -> tuple[int, int, int]:
    instances = [one for each in ec2.describe_instances()["Reservations"] for one in each["Instances"]]
    return len(instances), len(ec2.describe_launch_templates()["LaunchTemplates"]), len(ec2.describe_fleets()["Fleets"])


def test_each_request_is_a_dry_run_and_nothing_is_made(local_aws: RunningAws, launch: Launch) -> None:
    ec2 = local_aws.client("ec2")
    before = counts(ec2)

    answers = send_dry_runs(ec2, launch)

    assert {name: answer["code"] for name, answer in answers.items()} == {
        "launch-template": "DryRunOperation",
        "run-instances": "DryRunOperation",
        "create-fleet": "InvalidLaunchTemplateName.NotFoundException",  # only a real launch creates the template
    }
    assert counts(ec2) == before


def test_what_ec2_refuses_is_answered_with_its_code(launch: Launch) -> None:
    """With a client that cannot send at all there is no request and no response, and the code shows that."""
    import boto3

    client = boto3.client(
        "ec2",
        region_name="us-east-1",
        endpoint_url="http://127.0.0.1:9",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )

    answers = send_dry_runs(client, launch)

    assert {name: answer["code"] for name, answer in answers.items()} == dict.fromkeys(STEPS, "EndpointConnectionError")


def test_the_launch_travels_to_the_function_and_back_unchanged(launch: Launch) -> None:
    assert Launch.from_json(launch.to_json()).request_json() == launch.request_json()
    assert launch.request["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 1,
        "DefaultTargetCapacityType": "on-demand",
    }
