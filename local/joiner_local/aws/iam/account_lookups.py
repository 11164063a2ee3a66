"""Look up the facts of the account on which permissions depend: tags, owners, ARNs, keys of tables. All are read from
moto's stores."""

from collections.abc import Callable, Mapping
from typing import Any

from joiner_local.aws.local_aws import ACCOUNT, REGION

_roles: dict[str, Any] = {}
_machines: list[Callable[[str], str]] = []


def install(machine_of: Callable[[str], str]) -> None:
    """Store `machine_of`, which returns the ARN of the state machine that issued a task token, or an empty text."""
    _machines[:] = [machine_of]


def machine_of_token(token: str) -> str:
    return _machines[0](token) if _machines else ""


def partition_key(table: str) -> str:
    """Return the name of the table's partition key; empty for a table that does not exist."""
    from moto.dynamodb.models import dynamodb_backends

    found = dynamodb_backends[ACCOUNT][REGION].tables.get(table.rpartition("/")[2])
    return str(found.hash_key_attr) if found is not None else ""


def has_object(bucket: str, key: str) -> bool:
    from moto.s3.models import s3_backends

    found = s3_backends[ACCOUNT]["aws"].buckets.get(bucket)
    return found is not None and key in found.keys


def access_entry(cluster: str, principal: str) -> tuple[str, str, Mapping[str, str]]:
    """Return ARN, type and tags of an access entry; for a missing one, the ARN that it could have."""
    from joiner_local.aws.eks.access_entries import access_entries

    for entry in access_entries(ACCOUNT, REGION).of(cluster):
        if entry.principal == principal:
            return entry.arn, entry.type, entry.tags
    return new_access_entry(cluster, principal), "STANDARD", {}


def new_access_entry(cluster: str, principal: str) -> str:
    """Return the ARN of an entry that does not exist yet: its last part is an id that EKS chooses, so it is a
    wildcard."""
    parts = principal.split(":", 5)
    kind, _, path = parts[5].partition("/")
    return f"arn:aws:eks:{REGION}:{ACCOUNT}:access-entry/{cluster}/{kind}/{parts[4]}/{path.rpartition('/')[2]}/*"


def instance_profile(name: str) -> str:
    """Return the ARN with the profile's path; a profile that does not exist has no path."""
    found = list(_iam().instance_profiles.values())
    return next(
        (str(each.arn) for each in found if each.name == name),
        f"arn:aws:iam::{ACCOUNT}:instance-profile/{name}",
    )


def roles_of_profile(profile: Mapping[str, Any]) -> list[str]:
    """Return the ARNs of the roles of a profile that a launch names by its name or ARN."""
    found = list(_iam().instance_profiles.values())
    return [
        str(role.arn)
        for each in found
        if each.name == profile.get("Name") or each.arn == profile.get("Arn")
        for role in list(each.roles.values() if isinstance(each.roles, dict) else each.roles)
    ]


def role_arns() -> list[str]:
    return [str(each.arn) for each in list(_iam().roles.values())]


def role_by_arn(arn: str) -> Any | None:
    """Return moto's role of this ARN, or None."""
    roles = _iam().roles
    known = _roles.get(arn)
    if known is not None and roles.get(known.id) is known:
        return known
    found = next((each for each in list(roles.values()) if each.arn == arn), None)
    if found is not None:
        _roles[arn] = found  # moto computes the ARN again for each comparison
    return found


def managed_policy(arn: str) -> Any | None:
    """Return moto's managed policy of this ARN, or None."""
    return _iam().managed_policies.get(arn)


def role(name: str) -> str:
    found = next((each for each in list(_iam().roles.values()) if each.name == name), None)
    return str(found.arn) if found is not None else f"arn:aws:iam::{ACCOUNT}:role/{name}"


def key(key_id: str) -> str:
    """Return the ARN of a KMS key from its id, its ARN or an alias."""
    from moto.kms.models import kms_backends

    try:
        return str(kms_backends[ACCOUNT][REGION].describe_key(key_id).arn)
    except Exception:  # moto raises one class for an unknown key, another for an invalid name of a key
        return key_id if key_id.startswith("arn:") else f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{key_id}"


def ec2() -> Any:
    from moto.ec2.models import ec2_backends

    return ec2_backends[ACCOUNT][REGION]


def owner(resource: str) -> str:
    """Return the account that owns an EC2 resource."""
    from joiner_local.aws.ec2.shared_resources import owner_of

    return owner_of(resource)


def tags(resource: str) -> Mapping[str, str]:
    """Return the tags of an EC2 resource by its id; empty for a resource without tags, or of another account."""
    from joiner_local.aws.ec2.reservation_api import RESERVATIONS

    if owner(resource) != ACCOUNT:
        return {}
    reservation = RESERVATIONS.known.get(resource)
    return dict(reservation.tags if reservation else ec2().tags.get(resource) or {})


def placement_group(placement: Mapping[str, Any]) -> tuple[str, Mapping[str, str]] | None:
    """Return ARN and tags of the placement group that a launch names by its name or id; None for none."""
    from joiner_local.aws.ec2.placement_groups import find_group

    found = find_group(placement)
    if found is None:
        return None
    return found.arn(REGION), found.tags if owner(found.id) == ACCOUNT else {}


def has_instance(identifier: str) -> bool:
    return ec2().get_instance_by_id(identifier) is not None


def shown_owner(resource: Any) -> str:
    """Return the alias of the owner of an image or a snapshot if it has one (`amazon`), else the account."""
    return str(getattr(resource, "owner_alias", None) or resource.owner_id)


def _iam() -> Any:
    from moto.iam.models import iam_backends

    return iam_backends[ACCOUNT]["aws"]
