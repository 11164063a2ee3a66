"""Every list that a function reads from AWS is read to its last page.

The local AWS divides its lists into small pages (`faults/pages`); the result is compared with that of whole lists.
"""

import ast
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from botocore import xform_name
from botocore.loaders import Loader

from functions.elevate_installer.handler import InstallerAccess
from functions.empty_bucket import handler as empty_bucket
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.instance_prices import on_demand_prices, spot_prices
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LaunchRecord
from joiner.adapters.node_access import Kept, NodeAccess
from joiner.names import CLUSTER_NAME_TAG, LAUNCH, NODEPOOL, cluster_tag, template_prefix
from joiner_cli.acceptance.acceptance_run import read_left_states
from joiner_local.aws.account_setup.cluster_network import Network, seed_network
from joiner_local.aws.pricing.price_list import PAGE as PRICES
from tests.local.launch_fixtures import LaunchPad
from tests.local.running_aws import RunningAws
from tests.local.state_machine_runs import Sfn, machine

pytestmark = pytest.mark.local

SIZE = 2
NOTHING = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "s3:GetObject", "Resource": "*"}]}
)
MANY = 5
ROOT = Path(__file__).parents[2]
SERVICES = (
    "ec2",
    "iam",
    "eks",
    "s3",
    "dynamodb",
    "ssm",
    "sqs",
    "stepfunctions",
    "events",
    "lambda",
    "pricing",
    "sts",
    "cloudformation",
)
OURS = ("functions", "layers/joiner/python/joiner", "cli/joiner_cli")
"""Folders of code that calls AWS."""
DIVIDED_BY_THE_CALLER = {
    "query": "joiner.adapters.dynamodb_table follows LastEvaluatedKey",
    "describe_launch_template_versions": "one version of one template is asked for",
    "list_state_machines": "a local stack has a few",
    "describe_stacks": "one stack is asked for by its name",
    "list_executions": "the latest are asked for, which are the first page",
}
"""Actions with a paginator that are called without it, and why no result is lost."""


@dataclass
class FiveOfEachKind:
    """Five objects of each kind that a function lists."""

    aws: RunningAws
    network: Network
    cluster: str = field(init=False)
    ids: list[str] = field(init=False)
    ledger: Ledger = field(init=False)
    access: NodeAccess = field(init=False)
    role: str = field(init=False)
    execution: str = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = self.aws.fresh("paged")
        self.ec2 = Ec2(self.aws.client("ec2"))
        self._launch()
        self._list_in_ec2()
        self._list_in_iam_and_eks()
        self._list_in_the_ledger()
        sfn = Sfn(self.aws)
        self.execution = sfn.start(sfn.create(machine({f"state-{number}": {"Type": "Pass"} for number in range(MANY)})))
        sfn.end(self.execution)

    def _launch(self) -> None:
        ec2 = self.aws.client("ec2")
        pad = LaunchPad.build(ec2, self.aws.client("ssm"), self.network, self.aws.fresh("template"))
        self.ids = [instance for _ in range(MANY) for instance in pad.launch()]  # a reservation each
        ec2.create_tags(Resources=self.ids, Tags=self._tags())
        for instance in self.ids:
            self.aws.knob("impair", instanceId=instance)

    def _tags(self) -> list[dict[str, str]]:
        tags = {cluster_tag(self.cluster): "owned", CLUSTER_NAME_TAG: self.cluster, NODEPOOL: "default", LAUNCH: "l-1"}
        return [{"Key": key, "Value": value} for key, value in tags.items()]

    def _list_in_ec2(self) -> None:
        ec2 = self.aws.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
        self.in_vpc = [{"Name": "vpc-id", "Values": [vpc]}]
        for number in range(MANY):
            ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.77.{number}.0/24")
            ec2.create_security_group(VpcId=vpc, GroupName=f"paged-{number}", Description="of a test")
        volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"]
        for _ in range(MANY):
            asked = {"instanceType": "m5.large", "zone": "us-east-1a", "count": 1, "match": "targeted"}
            self.aws.knob("reservations", **asked, tags={"paged": self.cluster})
            ec2.create_launch_template(
                LaunchTemplateName=f"{template_prefix(self.cluster)}{self.aws.fresh('template')}",
                LaunchTemplateData={"ImageId": "ami-1"},
                TagSpecifications=[{"ResourceType": "launch-template", "Tags": self._tags()}],
            )
        self.template = self.aws.fresh("template")
        ec2.create_launch_template(LaunchTemplateName=self.template, LaunchTemplateData={"ImageId": "ami-1"})
        for number in range(1, MANY):
            changed = {"ImageId": f"ami-{number}"}
            ec2.create_launch_template_version(LaunchTemplateName=self.template, LaunchTemplateData=changed)
        self.snapshots = [ec2.create_snapshot(VolumeId=volume)["SnapshotId"] for _ in range(MANY)]

    def _list_in_iam_and_eks(self) -> None:
        iam, eks = self.aws.client("iam"), self.aws.client("eks")
        eks.create_cluster(name=self.cluster, roleArn=self.aws.role("eks.amazonaws.com"), resourcesVpcConfig={})
        self.access = NodeAccess(self.cluster, eks=eks, iam=iam, ec2=self.aws.client("ec2"))
        self.path = f"/{self.cluster}/"
        self.role = ""
        for number in range(MANY):
            arn = self.aws.role("ec2.amazonaws.com")
            self.role = self.role or arn.rpartition("/")[2]
            self.access.grant(arn)
            profile = f"{self.cluster}-{number}"
            iam.create_instance_profile(InstanceProfileName=profile, Path=self.path)
            iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName=self.role)

    def _list_in_the_ledger(self) -> None:
        client, table = self.aws.client("dynamodb"), self.aws.table("memory")
        self.ledger = Ledger(client, table)
        client.update_item(
            TableName=table,
            Key={"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}},
            UpdateExpression="SET holder = :me, leaseUntil = :until ADD leaseNumber :one",
            ExpressionAttributeValues={":me": {"S": "me"}, ":until": {"N": "100"}, ":one": {"N": "1"}},
        )
        for number in range(MANY):
            self.ledger.begin_launch(
                LaunchRecord(f"l-{number}", "{}", "token", claims=(f"claim-{number}",), lease_number=1, execution="me")
            )
            self.ledger.assign(f"claim-{number}", {"class": 1}, 1)
            self.ledger.begin_wave(f"wave-{number}", f"arn:{number}", [f"claim-{number}"], now=10)
        for instance in self.ids:
            self.ledger.pair(instance, f"claim-of-{instance}", "l-1")


LISTS: dict[str, tuple[str, Callable[[FiveOfEachKind], Any]]] = {
    "instances of a cluster": ("ec2 DescribeInstances", lambda w: w.ec2.instances_of_cluster(w.cluster)),
    "instances left of a cluster": ("ec2 DescribeInstances", lambda w: w.ec2.instances_left_of_cluster(w.cluster)),
    "instances of a launch": ("ec2 DescribeInstances", lambda w: w.ec2.instances_of_launch("l-1")),
    "instances by id": ("ec2 DescribeInstances", lambda w: w.ec2.instances(w.ids)),
    "instances in any state": ("ec2 DescribeInstances", lambda w: w.ec2.in_any_state(w.ids)),
    "instances in trouble": ("ec2 DescribeInstanceStatus", lambda w: w.ec2.troubled_instances()),
    "subnets": ("ec2 DescribeSubnets", lambda w: w.ec2.subnets(w.in_vpc)),
    "security groups": ("ec2 DescribeSecurityGroups", lambda w: w.ec2.security_groups(w.in_vpc)),
    "images": ("ec2 DescribeImages", lambda w: w.ec2.images([], ["amazon"])),
    "capacity reservations": (
        "ec2 DescribeCapacityReservations",
        lambda w: w.ec2.capacity_reservations([{"Name": "tag:paged", "Values": [w.cluster]}]),
    ),
    "launch templates": ("ec2 DescribeLaunchTemplates", lambda w: w.ec2.launch_templates(w.cluster)),
    "versions of a launch template": (
        "ec2 DescribeLaunchTemplateVersions",
        lambda w: w.ec2.pages(
            "describe_launch_template_versions", "LaunchTemplateVersions", LaunchTemplateName=w.template
        ),
    ),
    "spot placement scores": (
        "ec2 GetSpotPlacementScores",
        lambda w: w.ec2.pages(
            "get_spot_placement_scores",
            "SpotPlacementScores",
            InstanceTypes=["m5.large", "m5.xlarge", "m5.2xlarge"],
            TargetCapacity=1,
            SingleAvailabilityZone=True,
            RegionNames=["us-east-1"],
        ),
    ),
    "snapshots": ("ec2 DescribeSnapshots", lambda w: w.ec2.snapshots(w.snapshots)),
    "instance types": (
        "ec2 DescribeInstanceTypes",
        lambda w: w.ec2.pages("describe_instance_types", "InstanceTypes"),
    ),
    "offerings": (
        "ec2 DescribeInstanceTypeOfferings",
        lambda w: w.ec2.pages(
            "describe_instance_type_offerings", "InstanceTypeOfferings", LocationType="availability-zone"
        ),
    ),
    "access entries": ("eks GET clusters accessEntries", lambda w: w.access.entries()),
    "instance profiles": ("iam ListInstanceProfiles", lambda w: w.access.profiles(w.path)),
    "instance profiles of a role": ("iam ListInstanceProfilesForRole", lambda w: w.access.profiles_of(w.role)),
    "instance profiles in use": ("ec2 DescribeInstances", lambda w: w.access.used_profiles()),
    "open launches": ("dynamodb Query LAUNCH", lambda w: w.ledger.unrecorded_launches()),
    "assignments": ("dynamodb Query ASSIGNMENT", lambda w: w.ledger.assignments()),
    "waves": ("dynamodb Query WAVE", lambda w: w.ledger.waves()),
    "pairings": ("dynamodb BatchGetItem ", lambda w: w.ledger.pairings(w.ids)),
    "states that an execution has left": (
        "states GetExecutionHistory",
        lambda w: sorted(read_left_states(w.aws.client("stepfunctions"), w.execution)),
    ),
}


@pytest.fixture(scope="module")
def account(local_aws: RunningAws) -> FiveOfEachKind:
    return FiveOfEachKind(local_aws, seed_network(local_aws.endpoint, local_aws.fresh("network")))


@pytest.fixture
def small_pages(local_aws: RunningAws) -> Iterator[Callable[[], set[str]]]:
    """Small pages from the first call on; each call returns the calls of AWS that got several pages."""

    def divide() -> set[str]:
        return {call for _, call in local_aws.knob("faults/pages", size=SIZE)["paged"]}

    yield divide
    local_aws.knob("faults/pages", size=0)


@pytest.mark.parametrize("listed", LISTS)
def test_a_list_is_complete_although_it_has_several_pages(
    account: FiveOfEachKind, small_pages: Callable[[], set[str]], listed: str
) -> None:
    call, read = LISTS[listed]
    whole = read(account)
    small_pages()

    assert in_some_order(read(account)) == in_some_order(whole)
    assert len(whole) >= MANY or listed == "instance profiles in use"  # all instances have the same
    assert call in small_pages()


def in_some_order(listed: Any) -> Any:
    return sorted(listed, key=repr) if isinstance(listed, list) else listed


def test_a_bucket_of_several_pages_is_emptied(local_aws: RunningAws, small_pages: Callable[[], set[str]]) -> None:
    s3, bucket = local_aws.client("s3"), local_aws.fresh("bucket")
    s3.create_bucket(Bucket=bucket)
    for number in range(MANY):
        s3.put_object(Bucket=bucket, Key=f"plans/{number}", Body=b"{}")
    small_pages()

    empty_bucket.delete_objects(s3, bucket)

    assert s3.list_objects_v2(Bucket=bucket).get("Contents", []) == []
    assert any(call.startswith("s3 GET") for call in small_pages())


def test_a_role_is_removed_with_all_its_policies(
    local_aws: RunningAws, account: FiveOfEachKind, small_pages: Callable[[], set[str]]
) -> None:
    iam, role = local_aws.client("iam"), local_aws.role("ec2.amazonaws.com", []).rpartition("/")[2]
    for policy in ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonSSMManagedInstanceCore"):
        iam.attach_role_policy(RoleName=role, PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
    small_pages()

    account.access.remove_role(role)

    with pytest.raises(iam.exceptions.NoSuchEntityException):
        iam.get_role(RoleName=role)
    assert "iam ListAttachedRolePolicies" in small_pages()


def test_inline_policies_of_every_page_keep_a_role(
    local_aws: RunningAws, account: FiveOfEachKind, small_pages: Callable[[], set[str]]
) -> None:
    iam, role = local_aws.client("iam"), local_aws.role("ec2.amazonaws.com", []).rpartition("/")[2]
    for name in "abc":
        iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=NOTHING)
    small_pages()

    with pytest.raises(Kept, match=r"\(a, b, c\)"):
        account.access.remove_role(role)
    assert "iam ListRolePolicies" in small_pages()


def test_old_access_on_the_second_page_is_revoked(
    local_aws: RunningAws, account: FiveOfEachKind, small_pages: Callable[[], set[str]]
) -> None:
    eks, principal = local_aws.client("eks"), local_aws.role("lambda.amazonaws.com")
    entry = {"clusterName": account.cluster, "principalArn": principal}
    policies = [f"arn:aws:eks::aws:cluster-access-policy/{name}" for name in ("AmazonEKSAdminViewPolicy",
                "AmazonEKSEditPolicy", "AmazonEKSClusterAdminPolicy")]  # fmt: skip
    eks.create_access_entry(**entry)
    for policy in policies:
        eks.associate_access_policy(**entry, policyArn=policy, accessScope={"type": "cluster"})
    last = eks.list_associated_access_policies(**entry)["associatedAccessPolicies"][-1]["policyArn"]
    small_pages()

    assert InstallerAccess(eks, account.cluster, principal, last).revoke_older(time.time() + 60)

    assert last not in str(eks.list_associated_access_policies(**entry)["associatedAccessPolicies"])
    assert "eks GET clusters associatedAccessPolicies" in small_pages()


def test_prices_are_those_of_every_page(local_aws: RunningAws, small_pages: Callable[[], set[str]]) -> None:
    """The price list of the local AWS has pages of its own; the price history of EC2 is divided."""
    prices = on_demand_prices(local_aws.client("pricing"), "us-east-1")
    spot = spot_prices(local_aws.client("ec2"), datetime.now(UTC))
    small_pages()
    again = spot_prices(local_aws.client("ec2"), datetime.now(UTC))  # prices change with time, offerings do not

    assert len(prices) > PRICES
    assert {kind: set(zones) for kind, zones in again.items()} == {kind: set(zones) for kind, zones in spot.items()}
    assert len(spot) > PRICES
    assert "ec2 DescribeSpotPriceHistory" in small_pages()


def test_every_action_that_the_code_reads_by_pages_is_tried_here() -> None:
    tried = {call.split(" ")[1] for call, _ in LISTS.values()}
    elsewhere = {
        "ListObjectsV2",
        "GetProducts",
        "DescribeSpotPriceHistory",
        "ListAccessEntries",
        "ListRolePolicies",
        "ListAttachedRolePolicies",
        "ListAssociatedAccessPolicies",
    }
    read = strings_of_calls("pages", "get_paginator")
    of_the_code = {action for service in SERVICES for action in paginated(service) if xform_name(action) in read}
    assert of_the_code - tried - elsewhere == set()
    assert len(of_the_code) >= 13


def test_no_action_that_has_pages_is_called_without_its_paginator() -> None:
    names = {xform_name(action) for service in SERVICES for action in paginated(service)}
    called = {
        node.func.attr
        for tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert called & names == set(DIVIDED_BY_THE_CALLER)
    assert "batch_get_item" in called  # calls of clients are found


def test_every_list_of_the_api_server_is_read_by_pages() -> None:
    """Only the client builds paths of the API server; it reads one without a name by pages, or creates an object."""
    lists = 0
    for tree in trees():
        calls = [
            (node.func.attr, node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        ]
        paths = [call for name, call in calls if name == "path" and not call.args]
        around = [(name, call) for name, call in calls if any(path in call.args for path in paths)]
        assert len(around) == len(paths), ast.unparse(tree)[:200]
        for name, call in around:
            creates = name == "ask" and ast.unparse(call.args[0]) == "'POST'"
            assert creates or name == "_pages", ast.unparse(call)
            lists += not creates
    assert lists >= 3


def strings_of_calls(*names: str) -> set[str]:
    return {
        str(node.args[0].value)
        for tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


@cache
def trees() -> list[ast.Module]:
    return [ast.parse(file.read_text()) for folder in OURS for file in (ROOT / folder).rglob("*.py")]


@cache
def paginated(service: str) -> frozenset[str]:
    return frozenset(Loader().load_service_model(service, "paginators-1")["pagination"])
