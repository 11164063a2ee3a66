"""A key that the launching role may not use: the launch succeeds, and the instance terminates seconds later with EC2's
reason.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from infra.node_class_settings import NodeClassSettings
from infra.settings import Settings
from joiner_local.aws.account_setup.cluster_network import Network, seed_network
from joiner_local.aws.local_aws import ACCOUNT, REGION
from joiner_local.aws_sessions import aws_session
from tests.local.launch_fixtures import LaunchPad, launched
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

DIED = ("terminated", "Client.InternalError")
DISABLED = ("terminated", "Client.InvalidKMSKey.InvalidState")
LIVES = ("running", "")


@dataclass(frozen=True, slots=True)
class KeyAccount:
    aws: RunningAws
    network: Network

    def key(self, **asked: Any) -> str:
        """Create a customer-managed key and return its ARN."""
        found: str = self.aws.client("kms").create_key(**asked)["KeyMetadata"]["Arn"]
        return found

    def granted(self, *keys: str) -> list[dict[str, Any]]:
        """Return what the deployment grants `launch_instances` if the settings name these keys."""
        from infra.aws_permissions import AccountRegion, _allow_encryption  # with the CDK, whose import takes seconds

        settings = Settings(cluster="keys", region=REGION, node_classes=NodeClassSettings(kms_keys=keys))
        made = _allow_encryption(settings, AccountRegion("aws", REGION, ACCOUNT))
        return [each.to_statement_json() for each in made]

    def launch(self, ebs: dict[str, Any], statements: Sequence[dict[str, Any]]) -> tuple[str, str]:
        """Launch one instance with this root volume as a role with these permissions; return its last state, and the
        code of the reason.
        """
        launching = {"Effect": "Allow", "Action": ["ec2:*", "iam:PassRole"], "Resource": "*"}
        role = self.aws.role("lambda.amazonaws.com", [launching, *statements])
        keys = self.aws.client("sts").assume_role(RoleArn=role, RoleSessionName="launcher")["Credentials"]
        session = aws_session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
        ec2 = session.client("ec2", endpoint_url=self.aws.endpoint)
        volume = {"VolumeSize": 20, "VolumeType": "gp3", **ebs}
        mapping = [{"DeviceName": "/dev/xvda", "Ebs": volume}]
        pad = LaunchPad.build(
            ec2, self.aws.client("ssm"), self.network, self.aws.fresh("keys"), BlockDeviceMappings=mapping
        )
        answer = pad.fleet([pad.override()])
        assert answer["Errors"] == []  # the launch itself succeeds, whatever happens to the instance
        (instance,) = launched(answer)

        def ended() -> dict[str, Any] | None:
            described = self.aws.client("ec2").describe_instances(InstanceIds=[instance])["Reservations"][0][
                "Instances"
            ][0]
            return described if described["State"]["Name"] in ("running", "terminated") else None

        described = eventually(ended)
        return described["State"]["Name"], (described.get("StateReason") or {}).get("Code", "")


@pytest.fixture
def account(local_aws: RunningAws) -> Iterator[KeyAccount]:
    yield KeyAccount(local_aws, seed_network(local_aws.endpoint, "keys"))
    local_aws.client("ec2").reset_ebs_default_kms_key_id()
    local_aws.client("ec2").disable_ebs_encryption_by_default()


def test_without_a_grant_the_instance_ends_and_with_the_deployments_it_lives(account: KeyAccount) -> None:
    key = account.key()
    encrypted = {"Encrypted": True, "KmsKeyId": key}

    assert account.launch(encrypted, []) == DIED
    assert account.launch(encrypted, account.granted(account.key())) == DIED  # of another key
    assert account.launch(encrypted, account.granted(key)) == LIVES


def test_each_of_the_deployments_grants_is_needed(account: KeyAccount) -> None:
    key = account.key()
    using, granting = account.granted(key)

    assert account.launch({"Encrypted": True, "KmsKeyId": key}, [using]) == DIED
    assert account.launch({"Encrypted": True, "KmsKeyId": key}, [granting]) == DIED
    for action in using["Action"]:
        fewer = {**using, "Action": [each for each in using["Action"] if each != action]}
        assert account.launch({"Encrypted": True, "KmsKeyId": key}, [fewer, granting]) == DIED, action


def test_the_key_that_aws_manages_needs_no_grant(account: KeyAccount) -> None:
    assert account.launch({"Encrypted": True}, []) == LIVES
    assert account.launch({}, []) == LIVES


def test_the_accounts_default_key_counts_where_a_volume_names_none(account: KeyAccount) -> None:
    key = account.key()
    ec2 = account.aws.client("ec2")
    ec2.modify_ebs_default_kms_key_id(KmsKeyId=key)

    assert ec2.get_ebs_default_kms_key_id()["KmsKeyId"] == key
    assert account.launch({}, []) == LIVES
    assert account.launch({"Encrypted": True}, []) == DIED
    assert account.launch({"Encrypted": True}, account.granted(key)) == LIVES
    ec2.enable_ebs_encryption_by_default()
    assert account.launch({}, []) == DIED


def test_a_disabled_key_and_one_that_does_not_exist_end_the_instance_too(account: KeyAccount) -> None:
    key = account.key()
    account.aws.client("kms").disable_key(KeyId=key.rpartition("/")[2])

    assert account.launch({"Encrypted": True, "KmsKeyId": key}, account.granted(key)) == DISABLED
    assert account.launch({"Encrypted": True, "KmsKeyId": "no-key"}, account.granted(key)) == DIED


def test_a_key_policy_that_names_others_only_keeps_the_role_out(account: KeyAccount) -> None:
    others = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:role/others"},
        "Action": "kms:*",
        "Resource": "*",
    }
    key = account.key(
        Policy=json.dumps({"Version": "2012-10-17", "Statement": [others]}), BypassPolicyLockoutSafetyCheck=True
    )

    assert account.launch({"Encrypted": True, "KmsKeyId": key}, account.granted(key)) == DIED
