"""An account in memory with a deployed Joiner, for commands that act upon a deployment."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import pytest
from moto import mock_aws
from moto.cloudformation.models import cloudformation_backends
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT_ID

from joiner.names import CLUSTER_NAME_TAG, LAUNCH, NODECLAIM, pause_parameter, stack_name

MACHINE = {"Type": "AWS::SSM::Parameter", "Properties": {"Name": "/placeholder", "Type": "String", "Value": "x"}}

BUCKET = "joiner-prod-decisions"


@contextmanager
def aws_in_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty account; clients find credentials and a region in the environment, and no profile. It has none of the
    1,300 images that moto makes anew for each account.
    """
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        yield


class InstalledAccount:
    """An account in memory with a deployed Joiner for the cluster prod; no sweep runs in it."""

    def __init__(self) -> None:
        self.ssm, self.ec2, self.states, self.s3 = (
            boto3.client(name, region_name="eu-west-1") for name in ("ssm", "ec2", "stepfunctions", "s3")
        )
        self.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        self.ssm.put_parameter(Name=pause_parameter("prod"), Value="false", Type="String", Overwrite=True)
        iam = boto3.client("iam")
        trust = {
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "states.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ]
        }
        role = iam.create_role(RoleName="states", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
        definition = json.dumps({"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}})
        self.sweep, self.scale_up, self.disrupt = (
            self.states.create_state_machine(name=name, definition=definition, roleArn=role)["stateMachineArn"]
            for name in ("sweep", "scale-up", "disrupt")
        )
        arns = {"SweepArn": {"Value": self.sweep}, "ScaleUpArn": {"Value": self.scale_up}}
        arns |= {"DisruptArn": {"Value": self.disrupt}, "BucketName": {"Value": BUCKET}}
        outputs = {**arns, "SettingsName": {"Value": "production"}}
        template = {"Resources": {"Any": MACHINE}, "Outputs": outputs}
        boto3.client("cloudformation", region_name="eu-west-1").create_stack(
            StackName=stack_name("prod"), TemplateBody=json.dumps(template)
        )

    def remove(self) -> None:
        """Remove what the account holds: mock_aws forgets nothing while another mock_aws of the process is active."""
        boto3.client("cloudformation", region_name="eu-west-1").delete_stack(StackName=stack_name("prod"))
        for machine in (self.sweep, self.scale_up, self.disrupt):
            self.states.delete_state_machine(stateMachineArn=machine)
        boto3.client("iam").delete_role(RoleName="states")
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
            if found := [{"Key": each["Key"]} for each in page.get("Contents", ())]:
                self.s3.delete_objects(Bucket=BUCKET, Delete={"Objects": found})
        self.s3.delete_bucket(Bucket=BUCKET)
        self.ssm.delete_parameter(Name=pause_parameter("prod"))
        launched = self.ec2.describe_instances()["Reservations"]
        if ids := [instance["InstanceId"] for each in launched for instance in each["Instances"]]:
            self.ec2.terminate_instances(InstanceIds=ids)

    def fail_first_deployment(self, status: str) -> None:
        """Give the stack this status, as if its first deployment had failed; moto's deployments do not fail."""
        for backend in cloudformation_backends[ACCOUNT_ID]["eu-west-1"].stacks.values():
            backend.status = status

    def launch(self, claim: str) -> str:
        tags = [
            {"Key": CLUSTER_NAME_TAG, "Value": "prod"},
            {"Key": LAUNCH, "Value": "l-1"},
            {"Key": NODECLAIM, "Value": claim},
        ]
        image = self.ec2.register_image(Name=claim)["ImageId"]
        made = self.ec2.run_instances(
            ImageId=image, MinCount=1, MaxCount=1, TagSpecifications=[{"ResourceType": "instance", "Tags": tags}]
        )
        return str(made["Instances"][0]["InstanceId"])

    def value(self) -> str:
        return str(self.ssm.get_parameter(Name=pause_parameter("prod"))["Parameter"]["Value"])

    def sweeps(self) -> int:
        return len(self.states.list_executions(stateMachineArn=self.sweep)["executions"])
