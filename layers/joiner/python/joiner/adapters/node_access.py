"""Access of nodes to a cluster: access entries of node roles, instance profiles of a deployment, and the node role that
it created.

None of them is removed while an instance uses it: without its access entry a node has no access, and without its role
and profile the kubelet has no credentials. EC2 defines the use: an instance that is not terminated has an instance
profile, and the profile has a role.

Source: EKS user guide, "Create access entries"; IAM user guide, "Use instance profiles".
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from botocore.exceptions import ClientError

from joiner.names import CLUSTER_TAG

ALIVE: Final = ("pending", "running", "stopping", "stopped")
LINUX_TYPE: Final = "EC2_LINUX"
WINDOWS_TYPE: Final = "EC2_WINDOWS"
NODE_TYPES: Final = (LINUX_TYPE, WINDOWS_TYPE)


class Kept(Exception):
    """A resource that should be removed contains settings of other owners, and is kept; the message names them."""


class ForeignEntry(Exception):
    """The role has an access entry of another type, so that its nodes could not join."""


class NodeAccess:
    """The access of one cluster's nodes, from EKS, IAM and EC2."""

    def __init__(self, cluster: str, *, eks: Any, iam: Any, ec2: Any) -> None:
        self._cluster = cluster
        self._eks = eks
        self._iam = iam
        self._ec2 = ec2

    def grant(self, role_arn: str, *, windows: bool = False) -> bool:
        """Ensure that the role has an access entry for nodes; return False if it had one before.

        An entry for Windows nodes admits Linux nodes, too. Raises ForeignEntry for an entry with which nodes could not
        join: EKS cannot change the type of an entry.
        """
        try:
            self._eks.create_access_entry(
                clusterName=self._cluster,
                principalArn=role_arn,
                type=WINDOWS_TYPE if windows else LINUX_TYPE,
                tags={CLUSTER_TAG: self._cluster},
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceInUseException":
                raise
            kind = self._describe(role_arn).get("type")
            if windows and kind == LINUX_TYPE:
                raise ForeignEntry(
                    f"{role_arn} has an access entry of type {kind} in {self._cluster}; Windows nodes need "
                    f"{WINDOWS_TYPE}, and EKS cannot change the type: name another role in nodeRoles.windowsNames, or "
                    "delete the entry while no node has the role"
                ) from error
            if kind not in NODE_TYPES:
                raise ForeignEntry(
                    f"{role_arn} has an access entry of type {kind} in {self._cluster}; nodes need "
                    f"{' or '.join(NODE_TYPES)}: delete it, or name another role in nodeRoles.names"
                ) from error
            return False
        return True

    def entries(self) -> list[str]:
        """Return the roles whose access entries for nodes a deployment created; none if the cluster is gone, or has no
        access entries (authentication mode CONFIG_MAP).
        """
        try:
            pages = list(self._eks.get_paginator("list_access_entries").paginate(clusterName=self._cluster))
        except ClientError as error:
            if error.response["Error"]["Code"] in ("ResourceNotFoundException", "InvalidRequestException"):
                return []
            raise
        listed = [str(each) for page in pages for each in page["accessEntries"]]
        described = ((arn, self._describe(arn)) for arn in listed)
        return [
            arn
            for arn, entry in described
            if entry.get("type") in NODE_TYPES and self._is_ours(entry.get("tags") or {})
        ]

    def profiles(self, path: str) -> dict[str, str]:
        """Return the ARNs of the instance profiles below a path, with their names."""
        pages = self._iam.get_paginator("list_instance_profiles").paginate(PathPrefix=path)
        listed = (each for page in pages for each in page["InstanceProfiles"])
        return {str(each["Arn"]): str(each["InstanceProfileName"]) for each in listed if each["Path"] == path}

    def profiles_of(self, role: str) -> frozenset[str]:
        """Return the ARNs of the instance profiles that have a role (its name); none if the role is gone."""
        try:
            pages = list(self._iam.get_paginator("list_instance_profiles_for_role").paginate(RoleName=role))
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchEntity":
                return frozenset()
            raise
        return frozenset(str(each["Arn"]) for page in pages for each in page["InstanceProfiles"])

    def used_profiles(self) -> frozenset[str]:
        """Return the ARNs of the instance profiles of all instances of the region that are not terminated, of any
        owner.
        """
        states = [{"Name": "instance-state-name", "Values": list(ALIVE)}]
        pages = self._ec2.get_paginator("describe_instances").paginate(Filters=states)
        instances = (instance for page in pages for each in page["Reservations"] for instance in each["Instances"])
        return frozenset(str(each["IamInstanceProfile"]["Arn"]) for each in instances if each.get("IamInstanceProfile"))

    def made_role(self, role: str) -> bool:
        """Return whether a role of this name exists that a deployment for this cluster created."""
        try:
            tags = self._iam.get_role(RoleName=role)["Role"].get("Tags", ())
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchEntity":
                return False
            raise
        return self._is_ours({each["Key"]: each["Value"] for each in tags})

    def remove_entry(self, role_arn: str) -> None:
        """Delete an access entry."""
        with _unless_gone("ResourceNotFoundException"):
            self._eks.delete_access_entry(clusterName=self._cluster, principalArn=role_arn)

    def remove_profile(self, name: str) -> None:
        """Delete an instance profile."""
        with _unless_gone("NoSuchEntity"):
            for role in self._iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]:
                self._iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role["RoleName"])
            self._iam.delete_instance_profile(InstanceProfileName=name)

    def remove_role(self, role: str) -> None:
        """Delete a role that no instance profile has. Raises Kept for a role with inline policies, which no deployment
        writes.
        """
        with _unless_gone("NoSuchEntity"):
            pages = self._iam.get_paginator("list_role_policies").paginate(RoleName=role)
            if inline := [str(name) for page in pages for name in page["PolicyNames"]]:
                raise Kept(
                    f"role {role} has inline policies ({', '.join(inline)}): delete it by hand if nothing needs it"
                )
            pages = self._iam.get_paginator("list_attached_role_policies").paginate(RoleName=role)
            attached = [str(policy["PolicyArn"]) for page in pages for policy in page["AttachedPolicies"]]
            for policy in attached:
                self._iam.detach_role_policy(RoleName=role, PolicyArn=policy)
            try:
                self._iam.delete_role(RoleName=role)
            except ClientError as error:
                if error.response["Error"]["Code"] != "DeleteConflict":
                    raise
                raise Kept(f"role {role} cannot be deleted: {error.response['Error']['Message']}") from error

    def _describe(self, role_arn: str) -> dict[str, Any]:
        """Return an access entry; empty if it is gone."""
        try:
            answer = self._eks.describe_access_entry(clusterName=self._cluster, principalArn=role_arn)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return {}
            raise
        return dict(answer["accessEntry"])

    def _is_ours(self, tags: dict[str, str]) -> bool:
        return tags.get(CLUSTER_TAG) == self._cluster


@contextmanager
def _unless_gone(code: str) -> Iterator[None]:
    """Ignore an error of this code, which means that the resource is deleted already. It ends the block."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] != code:
            raise
