"""Whatever gives nodes access to the cluster stays while an instance uses it, and is removed afterwards. On the local
IAM, EKS and EC2.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.keep_node_access import handler as keep_node_access
from joiner.adapters.node_access import ForeignEntry, NodeAccess
from joiner.names import CLUSTER_TAG
from joiner_local.aws.account_setup.cluster_network import seed_network
from tests.local.launch_fixtures import LaunchPad
from tests.local.running_aws import RunningAws, eventually

TRUST = {"Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]}
HALF_AN_HOUR = 1800


@dataclass
class FakeUnusedTimes:
    """The times since which resources have been unused."""

    known: dict[str, int] = field(default_factory=dict)

    def since(self) -> Mapping[str, int]:
        return dict(self.known)

    def keep(self, seen: set[str], known: Mapping[str, int], now: int) -> None:
        self.known = {each: known.get(each, now) for each in seen}


class NodeAccessAccount:
    """A role that a deployment created, its profile below the deployment's path, and an access entry for its nodes."""

    def __init__(self, aws: RunningAws) -> None:
        self.aws, self.cluster, self.handler = aws, aws.fresh("access"), keep_node_access
        self.network = seed_network(aws.endpoint, self.cluster)
        self.path = f"/joiner/us-east-1/{self.cluster}/"
        self.role, self.profile = f"joiner-node-{self.cluster}-us-east-1", aws.fresh("profile")
        iam = aws.client("iam")
        tags = [{"Key": CLUSTER_TAG, "Value": self.cluster}]
        self.arn = iam.create_role(RoleName=self.role, AssumeRolePolicyDocument=json.dumps(TRUST), Tags=tags)["Role"][
            "Arn"
        ]
        iam.attach_role_policy(RoleName=self.role, PolicyArn="arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy")
        iam.create_instance_profile(InstanceProfileName=self.profile, Path=self.path)
        iam.add_role_to_instance_profile(InstanceProfileName=self.profile, RoleName=self.role)
        self.access = NodeAccess(self.cluster, eks=aws.client("eks"), iam=iam, ec2=aws.client("ec2"))
        self.access.grant(self.arn)

    def launch(self) -> str:
        pad = LaunchPad.build(self.aws.client("ec2"), self.aws.client("ssm"), self.network, self.aws.fresh("template"))
        answer = pad.fleet([pad.override(IamInstanceProfile={"Name": self.profile})])
        return str(answer["Instances"][0]["InstanceIds"][0])

    def terminate(self, instance: str) -> None:
        ec2 = self.aws.client("ec2")
        ec2.terminate_instances(InstanceIds=[instance])
        eventually(lambda: self._state(instance) == "terminated" or None)

    def _state(self, instance: str) -> str:
        found = self.aws.client("ec2").describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
        return str(found["State"]["Name"])

    def settings(self, **special: Any) -> Any:
        given = {
            "roles": (self.network.node_role_arn,),
            "manage_entries": True,
            "own_role": self.role,
            "path": self.path,
        }
        return self.handler.WantedAccess(cluster=self.cluster, **{**given, "profiles": (), **special})

    def there(self) -> tuple[bool, bool, bool]:
        """Return whether entry, profile and role exist."""
        return (
            self._has("eks", "describe_access_entry", clusterName=self.cluster, principalArn=self.arn),
            self._has("iam", "get_instance_profile", InstanceProfileName=self.profile),
            self._has("iam", "get_role", RoleName=self.role),
        )

    def _has(self, service: str, operation: str, **asked: str) -> bool:
        try:
            getattr(self.aws.client(service), operation)(**asked)
        except ClientError as error:
            assert error.response["Error"]["Code"] in ("NoSuchEntity", "ResourceNotFoundException")
            return False
        return True


@pytest.fixture
def account(local_aws: RunningAws) -> NodeAccessAccount:
    return NodeAccessAccount(local_aws)


ALL, NOTHING = (True, True, True), (False, False, False)


def test_what_a_running_instance_uses_stays_for_ever_and_goes_half_an_hour_after_its_end(
    account: NodeAccessAccount,
) -> None:
    instance, memory = account.launch(), FakeUnusedTimes()
    tidy = account.handler.remove_unused

    for now in (0, HALF_AN_HOUR, 100 * HALF_AN_HOUR):
        report = tidy(account.access, account.settings(), memory, now)
        assert (report["removed"], account.there()) == ([], ALL)
        assert account.arn in report["used"]
    account.terminate(instance)

    ended = 200 * HALF_AN_HOUR
    assert tidy(account.access, account.settings(), memory, ended)["removed"] == []
    assert tidy(account.access, account.settings(), memory, ended + HALF_AN_HOUR - 1)["removed"] == []
    assert account.there() == ALL
    assert account.arn in tidy(account.access, account.settings(), memory, ended + HALF_AN_HOUR)["removed"]
    tidy(account.access, account.settings(), memory, ended + HALF_AN_HOUR)  # until then the profile contained the role
    tidy(account.access, account.settings(), memory, ended + 2 * HALF_AN_HOUR)
    assert account.there() == NOTHING


def test_an_instance_that_comes_between_two_checks_keeps_all_of_it(account: NodeAccessAccount) -> None:
    memory = FakeUnusedTimes()

    account.handler.remove_unused(account.access, account.settings(), memory, 0)
    account.launch()  # by an execution that began before the deployment
    account.handler.remove_unused(account.access, account.settings(), memory, HALF_AN_HOUR)

    assert account.there() == ALL
    assert memory.known == {}


def test_a_deleted_entry_is_created_again(account: NodeAccessAccount) -> None:
    wanted = account.settings(roles=(account.arn,), profiles=(account.profile,))
    account.access.remove_entry(account.arn)

    account.handler.remove_unused(account.access, wanted, FakeUnusedTimes(), 0)

    assert account.there() == ALL
    assert account.access.entries() == [account.arn]


def test_entries_are_not_made_where_the_settings_do_not_manage_them(account: NodeAccessAccount) -> None:
    account.access.remove_entry(account.arn)

    account.handler.remove_unused(
        account.access,
        account.settings(roles=(account.arn,), manage_entries=False, profiles=(account.profile,)),
        FakeUnusedTimes(),
        0,
    )

    assert account.access.entries() == []


def test_what_the_settings_name_is_never_removed(account: NodeAccessAccount) -> None:
    memory, wanted = FakeUnusedTimes(), account.settings(roles=(account.arn,), profiles=(account.profile,))

    for now in (0, HALF_AN_HOUR, 2 * HALF_AN_HOUR):
        assert account.handler.remove_unused(account.access, wanted, memory, now) == {
            "removed": [],
            "unused": [],
            "used": [],
        }

    assert account.there() == ALL


def test_what_a_deployment_did_not_make_is_never_removed(account: NodeAccessAccount) -> None:
    """The entry and the role of another owner's nodes, although no settings name them and no instance uses them."""
    iam, eks, memory = account.aws.client("iam"), account.aws.client("eks"), FakeUnusedTimes()
    foreign = account.network.node_role_arn
    assert not account.access.grant(foreign)  # it had an entry before

    for now in (0, HALF_AN_HOUR, 2 * HALF_AN_HOUR):
        account.handler.remove_unused(
            account.access, account.settings(roles=(account.arn,), own_role=foreign.rpartition("/")[2]), memory, now
        )

    assert eks.describe_access_entry(clusterName=account.cluster, principalArn=foreign)
    assert iam.get_role(RoleName=foreign.rpartition("/")[2])
    assert iam.get_instance_profile(InstanceProfileName=account.network.instance_profile)


def test_a_role_with_an_entry_of_another_type_is_refused_with_the_remedy(account: NodeAccessAccount) -> None:
    arn = account.aws.role("ec2.amazonaws.com")
    account.aws.client("eks").create_access_entry(clusterName=account.cluster, principalArn=arn, type="STANDARD")

    with pytest.raises(
        ForeignEntry,
        match=r"has an access entry of type STANDARD in access-\w+; nodes need "
        r"EC2_LINUX or EC2_WINDOWS: delete it",
    ):
        account.access.grant(arn)


def test_a_role_of_windows_nodes_gets_an_entry_that_admits_them_and_it_is_removed_like_the_others(
    account: NodeAccessAccount,
) -> None:
    eks, memory = account.aws.client("eks"), FakeUnusedTimes()
    arn = account.aws.role("ec2.amazonaws.com")
    account.handler.grant_access(account.access, account.settings(roles=(arn,), windows_roles=(arn,)))

    made = eks.describe_access_entry(clusterName=account.cluster, principalArn=arn)["accessEntry"]
    assert (made["type"], made["kubernetesGroups"]) == ("EC2_WINDOWS", ["eks:kube-proxy-windows", "system:nodes"])
    assert not account.access.grant(arn, windows=True), "it exists"
    assert not account.access.grant(arn), "it admits Linux nodes, too"

    first, second = (
        account.handler.remove_unused(account.access, account.settings(roles=()), memory, now)
        for now in (0, HALF_AN_HOUR)
    )
    assert (arn in first["unused"], arn in second["removed"]) == (True, True)
    assert arn not in eks.list_access_entries(clusterName=account.cluster)["accessEntries"]


def test_a_role_of_windows_nodes_with_an_entry_for_linux_is_refused_with_the_remedy(account: NodeAccessAccount) -> None:
    with pytest.raises(ForeignEntry, match=r"of type EC2_LINUX in access-\w+; Windows nodes need EC2_WINDOWS, and EKS"):
        account.access.grant(account.arn, windows=True)


def test_profiles_are_listed_by_their_path_only(account: NodeAccessAccount) -> None:
    listed = account.aws.client("iam").list_instance_profiles(PathPrefix=account.path)["InstanceProfiles"]

    assert [each["InstanceProfileName"] for each in listed] == [account.profile]
    assert set(account.access.profiles(account.path).values()) == {account.profile}


def test_a_cluster_that_is_gone_has_no_entries(account: NodeAccessAccount) -> None:
    access = NodeAccess(
        "nowhere", eks=account.aws.client("eks"), iam=account.aws.client("iam"), ec2=account.aws.client("ec2")
    )

    assert access.entries() == []


def test_a_role_to_which_people_added_a_policy_stays_whole_and_stops_nothing(account: NodeAccessAccount) -> None:
    iam, memory = account.aws.client("iam"), FakeUnusedTimes()
    reading = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [reading]})
    iam.put_role_policy(RoleName=account.role, PolicyName="people", PolicyDocument=policy)

    reports = [
        account.handler.remove_unused(account.access, account.settings(), memory, now)
        for now in range(0, 5 * HALF_AN_HOUR, HALF_AN_HOUR)
    ]

    assert account.there() == (False, False, True)
    assert len(iam.list_attached_role_policies(RoleName=account.role)["AttachedPolicies"]) == 1
    assert reports[-1]["unused"] == [f"role/{account.role}"]
