"""Unused launch templates are deleted: on the local EC2, with the ledger and instances that keep the others."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.collect_launch_templates.handler import collect_unused, delete_all
from joiner.adapters.ec2_client import Ec2
from joiner.launching import Launch
from joiner.names import CLUSTER_NAME_TAG, NODEPOOL, cluster_tag
from joiner_local.aws.account_setup.cluster_network import Network, seed_network
from tests.local.running_aws import RunningAws
from tests.local.test_launching import LaunchAccount

pytestmark = pytest.mark.local

LATER = timedelta(hours=1, minutes=1)


@pytest.fixture(scope="module")
def network(local_aws: RunningAws) -> Network:
    return seed_network(local_aws.endpoint, "launching")


@pytest.fixture
def account(local_aws: RunningAws, network: Network) -> LaunchAccount:
    return LaunchAccount(local_aws, network)


def launched(account: LaunchAccount, suffix: str = "a") -> Launch:
    """Launch one instance; its outcome is recorded."""
    key, launch = account.launch(suffix)
    assert account.send(key)["launched"] == 1
    account.ledger.mark_recorded(launch.id, int(datetime.now(UTC).timestamp()))
    return launch


def names_of(account: LaunchAccount) -> set[str]:
    return {each.name for each in account.ec2.launch_templates("launching")}


def collected(account: LaunchAccount, now: datetime) -> dict[str, Any]:
    return collect_unused(account.ec2, account.ledger, "launching", now)


def test_a_template_is_deleted_an_hour_after_its_last_launch_and_created_again(account: LaunchAccount) -> None:
    (template,) = launched(account).templates

    assert collected(account, datetime.now(UTC))["deleted"] == 0
    assert template.name in names_of(account)
    assert collected(account, datetime.now(UTC) + LATER)["deleted"] >= 1
    assert template.name not in names_of(account)
    launched(account, "b")
    assert template.name in names_of(account)


def test_the_template_of_an_open_launch_stays(account: LaunchAccount) -> None:
    key, launch = account.launch("a")
    assert account.send(key)["launched"] == 1

    assert launch.id in {each.id for each in account.ledger.unrecorded_launches()}
    assert collected(account, datetime.now(UTC) + LATER)["deleted"] == 0
    assert {template.name for template in launch.templates} <= names_of(account)


def test_templates_of_another_cluster_and_of_others_stay(account: LaunchAccount) -> None:
    ec2, fresh = account.aws.client("ec2"), account.aws.fresh("template")
    tags = {cluster_tag("other"): "owned", CLUSTER_NAME_TAG: "other", NODEPOOL: "default"}
    ours = {cluster_tag("launching"): "owned", CLUSTER_NAME_TAG: "launching", NODEPOOL: "default"}
    for name, tagged in ((f"{fresh}-other", tags), (f"{fresh}-plain", {}), (f"{fresh}-tagged", ours)):
        specification = {"ResourceType": "launch-template", "Tags": [{"Key": k, "Value": v} for k, v in tagged.items()]}
        ec2.create_launch_template(
            LaunchTemplateName=name,
            LaunchTemplateData={"ImageId": "ami-1"},
            **({"TagSpecifications": [specification]} if tagged else {}),
        )

    collected(account, datetime.now(UTC) + LATER)

    left = {each["LaunchTemplateName"] for each in Ec2(ec2).pages("describe_launch_templates", "LaunchTemplates")}
    assert {f"{fresh}-other", f"{fresh}-plain", f"{fresh}-tagged"} <= left


def test_the_end_of_the_stack_deletes_templates_in_use_too(account: LaunchAccount) -> None:
    (template,) = launched(account).templates
    assert template.name in names_of(account)

    delete_all(account.ec2, "launching")

    assert names_of(account) == set()
