"""Find volumes whose KMS key the launching role may not use: their instances launch, and end before they run.

EC2 uses the key after it has responded, in the name of the caller. Without permission the instance shuts down with the
state reason ``Client.InternalError``; a disabled key gives ``Client.InvalidKMSKey.InvalidState``. Both the role's
identity policies and the key's policy must allow the use. Users (keys that belong to no role) are administrators here.

Sources: aws/karpenter-provider-aws#1407 and #4935; Amazon EBS user guide, "How Amazon EBS encryption works"
(permissions); EC2 API reference, CreateVolume (KmsKeyId: the key is authenticated asynchronously, so that an invalid
one fails later).
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from moto.iam.models import iam_backends
from moto.kms.models import kms_backends
from moto.sts.models import sts_backends

from joiner_local.aws.ec2.instance_lifecycle import EndReason
from joiner_local.aws.iam.access_control import ACCESS_CONTROL
from joiner_local.aws.iam.policy_evaluation import RequiredPermission, as_list

NEEDED: Final = (
    "kms:CreateGrant",
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
"""What EC2 asks of a key for a volume, in the name of who launches."""

NO_PERMISSION: Final = EndReason("Client.InternalError", "Client.InternalError: Client error on launch")
INVALID_STATE: Final = EndReason(
    "Client.InvalidKMSKey.InvalidState",
    "Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state",
)


def find_trouble(keys: Iterable[str], access_key: str, backend: Any) -> EndReason | None:
    """Return why instances whose volumes have these keys end, unless the signer with `access_key` may use all of
    them.
    """
    return next((found for key in sorted(keys) if (found := _trouble(key, access_key, backend))), None)


def _trouble(text: str, access_key: str, backend: Any) -> EndReason | None:
    kms = kms_backends[backend.account_id][backend.region_name]
    try:
        key = kms.describe_key(text)
    except Exception:  # moto raises one class for an unknown key, another for an invalid key name
        return NO_PERMISSION
    if key.key_state != "Enabled":
        return INVALID_STATE
    role = _role(access_key)
    if role is None:
        return None
    context = {"kms:ViaService": f"ec2.{backend.region_name}.amazonaws.com", "kms:GrantIsForAWSResource": "true"}
    keys = {name.lower(): (value,) for name, value in context.items()}
    permissions = ACCESS_CONTROL.permissions(role.arn)
    allowed = all(permissions.decide(RequiredPermission(action, key.arn, keys)).allowed for action in NEEDED)
    return None if allowed and _key_admits(key, role.arn, backend.account_id) else NO_PERMISSION


def _role(access_key: str) -> Any | None:
    """Return the IAM role of temporary credentials."""
    for partitions in list(sts_backends.values()):
        for sts in list(partitions.values()):
            for assumed in reversed(list(sts.assumed_roles)):
                if assumed.access_key_id == access_key:
                    return next(
                        (
                            each
                            for each in list(_iam(assumed.account_id).roles.values())
                            if each.arn == assumed.role_arn
                        ),
                        None,
                    )
    return None


def _iam(account: str) -> Any:
    return iam_backends[account]["aws"]


def _key_admits(key: Any, role: str, account: str) -> bool:
    """Return whether the key's policy names the role, or delegates to the account's IAM policies."""
    if not key.policy:
        return True
    admitted = {role, account, f"arn:aws:iam::{account}:root", "*"}
    for statement in as_list(json.loads(key.policy)["Statement"]):
        principal = statement.get("Principal", {})
        named = as_list(principal.get("AWS", ())) if isinstance(principal, Mapping) else [principal]
        if statement.get("Effect") == "Allow" and admitted & set(named):
            return True
    return False
