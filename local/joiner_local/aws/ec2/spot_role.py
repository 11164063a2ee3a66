"""The service-linked role that EC2 needs for Spot Instances: AWSServiceRoleForEC2Spot.

An account that never used Spot Instances does not have it. EC2 creates it at the first request if the caller may create
service-linked roles, and otherwise refuses every spot pool. Accounts of the local AWS have the role unless the knob
removes it; `aws iam create-service-linked-role --aws-service-name spot.amazonaws.com` creates it again. Source: EC2
user guide, "Service-linked role for EC2 Spot Instance requests".

Knob: `POST /_local/spot-role {"exists": false}`.
"""

from dataclasses import dataclass
from typing import Any, Final

from moto.iam.models import iam_backends

from joiner_local.aws.local_aws import ACCOUNT, LocalAws
from joiner_local.knob_requests import check_fields, read_flag

PATH: Final = "/aws-service-role/spot.amazonaws.com/"


@dataclass(slots=True)
class SpotRole:
    """`given`: the account has the role from the start, without an entry in IAM."""

    given: bool = True

    def exists(self) -> bool:
        """Return whether the account has the service-linked role for Spot Instances."""
        return self.given or bool(_created())


SPOT_ROLE: Final = SpotRole()


def _created() -> list[Any]:
    return [role for role in list(iam_backends[ACCOUNT]["aws"].roles.values()) if role.path == PATH]


def set_spot_role(asked: dict[str, Any]) -> dict[str, Any]:
    """Set whether the role exists."""
    check_fields(asked, {"exists"}, "spot-role")
    if "exists" in asked:
        SPOT_ROLE.given = read_flag(asked, "exists")
        if not SPOT_ROLE.given:
            for role in _created():
                del iam_backends[ACCOUNT]["aws"].roles[role.id]
    return {"exists": SPOT_ROLE.exists()}


def install(aws: LocalAws) -> None:
    """Add the knob."""
    aws.add_knobs({"spot-role": set_spot_role})
