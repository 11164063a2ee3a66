"""EC2 resources of other accounts that AWS Resource Access Manager shares with this account.

EC2 authorizes the use of a shared resource against its ARN, which has the number of its owner. The tags of the owner
are not visible to the account that it is shared with, which may put its own tags on it. AWS does not document that
conditions on `aws:ResourceTag` see these tags, so they do not see them here. Source: VPC user guide, "Responsibilities
and permissions for owners and participants"; Service Authorization Reference of Amazon EC2 (ARN formats).

Knob: `POST /_local/shared-resources {"owners": {"subnet-1": "222222222222"}}`; an empty object ends the sharing.
"""

import re
from typing import Any, Final

from moto.ec2.models import ec2_backends
from moto.ec2.models.security_groups import SecurityGroup
from moto.ec2.models.subnets import Subnet

from joiner_local.aws.attribute_patches import replace_attribute
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from joiner_local.knob_requests import read_object, read_text

OWNERS: Final[dict[str, str]] = {}
"""Id of a resource -> the account that owns it, for resources of other accounts."""


def owner_of(identifier: str) -> str:
    """Return the account that owns a resource of EC2.

    >>> owner_of("subnet-1")
    '123456789012'
    """
    return OWNERS.get(identifier, ACCOUNT)


def set_shared_resources(asked: dict[str, Any]) -> dict[str, Any]:
    """Set the resources that other accounts own, and hide the tags that these had until now."""
    written = read_object(asked, "owners")
    wanted = {identifier: read_text(written, identifier) for identifier in list(written)}
    if wrong := [owner for owner in wanted.values() if not re.fullmatch(r"\d{12}", owner)]:
        raise ValueError(f"{wrong[0]} is no number of an account: give 12 digits")
    tags = ec2_backends[ACCOUNT][REGION].tags
    for identifier in wanted.keys() - OWNERS.keys():
        tags.pop(identifier, None)
    OWNERS.clear()
    OWNERS.update(wanted)
    return {"owners": dict(OWNERS)}


def _group_owner(group: Any) -> str:
    return owner_of(group.id)


def _ignore(_group: Any, _account: str) -> None:
    """Ignore that moto stores its own account as the owner."""


def install(aws: LocalAws) -> None:
    """Show the owners in moto's answers, and add the knob."""
    replace_attribute(Subnet, "owner_id", property(lambda subnet: owner_of(subnet.id)))
    replace_attribute(SecurityGroup, "owner_id", property(_group_owner, _ignore))
    aws.add_knobs({"shared-resources": set_shared_resources})
