"""`joiner uninstall`: the parameter that it writes, its messages, and its exit codes."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from joiner.names import CLUSTER_NAME_TAG, DRAINING, KEEPING, LAUNCH, NODECLAIM, pause_parameter, stack_name
from tests.unit.cli.command_runs import joiner

MACHINE = {"Type": "AWS::SSM::Parameter", "Properties": {"Name": "/placeholder", "Type": "String", "Value": "x"}}


class InstalledAccount:
    """An account in memory with a deployed Joiner for the cluster prod; no sweep runs in it."""

    def __init__(self) -> None:
        self.ssm, self.ec2, self.states = (
            boto3.client(name, region_name="eu-west-1") for name in ("ssm", "ec2", "stepfunctions")
        )
        self.ssm.put_parameter(Name=pause_parameter("prod"), Value="false", Type="String", Overwrite=True)
        iam = boto3.client("iam")
        trust = {
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "states.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ]
        }
        role = iam.create_role(RoleName="states", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
        definition = json.dumps({"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}})
        self.sweep = self.states.create_state_machine(name="sweep", definition=definition, roleArn=role)[
            "stateMachineArn"
        ]
        outputs = {"SweepArn": {"Value": self.sweep}, "SettingsName": {"Value": "production"}}
        template = {"Resources": {"Any": MACHINE}, "Outputs": outputs}
        boto3.client("cloudformation", region_name="eu-west-1").create_stack(
            StackName=stack_name("prod"), TemplateBody=json.dumps(template)
        )

    def remove(self) -> None:
        """Remove what the account holds: mock_aws forgets nothing while another mock_aws of the process is active."""
        boto3.client("cloudformation", region_name="eu-west-1").delete_stack(StackName=stack_name("prod"))
        self.states.delete_state_machine(stateMachineArn=self.sweep)
        boto3.client("iam").delete_role(RoleName="states")
        self.ssm.delete_parameter(Name=pause_parameter("prod"))
        found = self.ec2.describe_instances()["Reservations"]
        if ids := [instance["InstanceId"] for each in found for instance in each["Instances"]]:
            self.ec2.terminate_instances(InstanceIds=ids)

    def launch(self, claim: str) -> str:
        tags = [
            {"Key": CLUSTER_NAME_TAG, "Value": "prod"},
            {"Key": LAUNCH, "Value": "l-1"},
            {"Key": NODECLAIM, "Value": claim},
        ]
        image = self.ec2.describe_images()["Images"][0]["ImageId"]
        made = self.ec2.run_instances(
            ImageId=image, MinCount=1, MaxCount=1, TagSpecifications=[{"ResourceType": "instance", "Tags": tags}]
        )
        return str(made["Instances"][0]["InstanceId"])

    def value(self) -> str:
        return str(self.ssm.get_parameter(Name=pause_parameter("prod"))["Parameter"]["Value"])

    def sweeps(self) -> int:
        return len(self.states.list_executions(stateMachineArn=self.sweep)["executions"])


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[InstalledAccount]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        account = InstalledAccount()
        yield account
        account.remove()


def uninstall(*arguments: Any) -> Any:
    return joiner("uninstall", "--cluster", "prod", *arguments)


def test_keep_stops_joiner_and_reports_the_number_of_nodes(account: InstalledAccount) -> None:
    account.launch("default-1")

    answer = uninstall("--nodes", "keep")

    assert (answer.exit_code, answer.out) == (
        0,
        "Joiner is stopped in prod; 1 node will continue to run without it\n",
    )
    assert "Delete the stack now: node_modules/.bin/cdk destroy -c cluster=production (in the checkout" in answer.err
    assert (account.value(), account.sweeps()) == (KEEPING, 0)


def test_drain_without_nodes_ends_at_once(account: InstalledAccount) -> None:
    answer = uninstall("--nodes", "drain")

    assert (answer.exit_code, answer.out) == (0, "No node of Joiner is left in prod; nothing will be launched\n")
    assert (account.value(), account.sweeps()) == (DRAINING, 0)


def test_drain_starts_a_sweep_names_the_nodes_that_are_left_and_exits_with_2(account: InstalledAccount) -> None:
    for number in range(7):
        account.launch(f"default-{number}")

    answer = uninstall("--nodes", "drain", "--no-wait")

    assert (answer.exit_code, answer.out) == (2, "7 nodes of Joiner in prod are being drained\n")
    assert answer.err.startswith("0 of 7 nodes gone; left: default-")
    assert "and 2 more" in answer.err
    assert (account.value(), account.sweeps()) == (DRAINING, 1)


def test_drain_waits_until_the_last_node_is_gone(account: InstalledAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = account.launch("default-1")

    def end(_seconds: float) -> None:
        account.ec2.terminate_instances(InstanceIds=[instance])

    monkeypatch.setattr("time.sleep", end)
    answer = uninstall("--nodes", "drain")

    assert (answer.exit_code, answer.out) == (0, "No node of Joiner is left in prod; nothing will be launched\n")


def test_the_drain_continues_after_an_interrupted_wait(
    account: InstalledAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.launch("default-1")

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    answer = uninstall("--nodes", "drain")

    assert answer.exit_code == 130
    assert "the drain continues" in answer.err
    assert account.value() == DRAINING


def test_a_cluster_without_joiner_is_named_and_nothing_is_written(account: InstalledAccount) -> None:
    answer = joiner("uninstall", "--cluster", "prdo", "--nodes", "keep")

    assert (answer.exit_code, answer.out) == (1, "")
    assert (
        "no Joiner is deployed for a cluster prdo in this account and region (there is no stack joiner-prdo)"
        in answer.err
    )
    assert account.value() == "false"


def test_resume_undoes_it(account: InstalledAccount) -> None:
    uninstall("--nodes", "drain")

    assert joiner("resume", "prod").exit_code == 0
    assert account.value() == "false"
