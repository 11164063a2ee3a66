"""The installer's access to the cluster: granted before it runs, revoked after it, and never left behind."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from functions.elevate_installer import handler as elevate_installer
from joiner.adapters import environment
from joiner.adapters.custom_resource import Request
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


class Entry:
    """An access entry of a cluster, and how the function changes it."""

    def __init__(self, aws: RunningAws) -> None:
        self.eks, self.cluster, self.principal = (
            aws.client("eks"),
            aws.fresh("cluster"),
            aws.role("lambda.amazonaws.com"),
        )
        network = {"subnetIds": ["subnet-1", "subnet-2"]}
        self.eks.create_cluster(name=self.cluster, roleArn=self.principal, resourcesVpcConfig=network)
        self.eks.create_access_entry(clusterName=self.cluster, principalArn=self.principal)
        self.access: Any = elevate_installer.InstallerAccess(self.eks, self.cluster, self.principal, POLICY)

    @property
    def policies(self) -> list[str]:
        found = self.eks.list_associated_access_policies(clusterName=self.cluster, principalArn=self.principal)
        return [each["policyArn"] for each in found["associatedAccessPolicies"]]


@pytest.fixture
def entry(local_aws: RunningAws) -> Iterator[Entry]:
    made = Entry(local_aws)
    yield made
    made.eks.delete_cluster(name=made.cluster)


@pytest.fixture
def around(entry: Entry, local_aws: RunningAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the environment that the deployed function has."""
    settings = {
        "AWS_ENDPOINT_URL": local_aws.endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "JOINER_CLUSTER": entry.cluster,
        "JOINER_INSTALLER": entry.principal,
        "JOINER_INSTALLER_POLICY": POLICY,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    yield
    environment.client.cache_clear()


def test_what_is_granted_is_for_the_whole_cluster_and_can_be_revoked_twice(entry: Entry) -> None:
    entry.access.grant()
    assert entry.policies == [POLICY]

    entry.access.revoke()
    entry.access.revoke()
    assert entry.policies == []


def test_only_what_is_older_than_the_limit_is_revoked_by_the_schedule(entry: Entry) -> None:
    entry.access.grant()

    assert entry.access.revoke_older(time.time() - 900) is False
    assert entry.policies == [POLICY]
    assert entry.access.revoke_older(time.time() + 60) is True
    assert entry.policies == []


def test_an_entry_that_is_gone_stops_no_deletion_but_stops_a_creation(entry: Entry) -> None:
    entry.eks.delete_access_entry(clusterName=entry.cluster, principalArn=entry.principal)

    entry.access.grant(or_gone=True)
    entry.access.revoke()
    assert entry.access.revoke_older(time.time()) is False
    with pytest.raises(entry.eks.exceptions.ResourceNotFoundException):
        entry.access.grant()


@pytest.mark.usefixtures("around")
@pytest.mark.parametrize(
    ("place", "kind", "granted"),
    [
        ("before", "Create", True),
        ("before", "Update", True),
        ("before", "Delete", False),
        ("after", "Create", False),
        ("after", "Update", False),
        ("after", "Delete", True),
    ],
)
def test_the_two_resources_mirror_each_other(entry: Entry, place: str, kind: Any, granted: bool) -> None:
    if not granted:
        entry.access.grant()

    answer = elevate_installer.act(Request(kind, {"Place": place}, None))

    assert entry.policies == ([POLICY] if granted else [])
    assert answer.physical_id == f"installer-access-{place}"
