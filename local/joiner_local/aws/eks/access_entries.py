"""EKS access entries: the user and groups of an IAM principal in the cluster. This is the store, the API and the
CloudFormation type.

moto has no access entries. Source: EKS API reference (CreateAccessEntry and related actions) and the EKS user guide,
"Grant IAM users access to Kubernetes with EKS access entries". An entry of a node type (EC2_LINUX) has the name and the
group of nodes, and takes no others.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from moto.core.common_models import CloudFormationModel
from moto.core.utils import utcnow
from moto.eks.exceptions import (
    InvalidParameterException,
    InvalidRequestException,
    ResourceInUseException,
    ResourceNotFoundException,
)
from moto.eks.models import eks_backends
from moto.iam.models import iam_backends

NODE_TYPES: Final = {"EC2_LINUX": ["system:nodes"], "EC2_WINDOWS": ["eks:kube-proxy-windows", "system:nodes"]}
TYPES: Final = frozenset({"STANDARD", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX", *NODE_TYPES})
RESERVED_PREFIXES: Final = ("system:", "eks:", "aws:", "amazon:", "iam:")
POLICIES: Final = (
    "AmazonEKSAdminPolicy",
    "AmazonEKSAdminViewPolicy",
    "AmazonEKSClusterAdminPolicy",
    "AmazonEKSEditPolicy",
    "AmazonEKSViewPolicy",
    "AmazonEKSAutoNodePolicy",
)


def policy_arn(name: str) -> str:
    """Return the ARN of an access policy of EKS."""
    return f"arn:aws:eks::aws:cluster-access-policy/{name}"


@dataclass(slots=True)
class AssociatedPolicy:
    """An access policy of an entry, with its scope."""

    policy_arn: str
    scope: Mapping[str, Any]
    since: datetime = field(default_factory=utcnow)

    def describe(self) -> dict[str, Any]:
        """Return the association as EKS describes it."""
        scope = {"type": self.scope.get("type", "cluster"), "namespaces": list(self.scope.get("namespaces") or [])}
        return {
            "policyArn": self.policy_arn,
            "accessScope": scope,
            "associatedAt": self.since,
            "modifiedAt": self.since,
        }


@dataclass(slots=True)
class AccessEntry:
    """The access entry of a principal in a cluster."""

    cluster: str
    principal: str
    arn: str
    type: str
    groups: list[str]
    username: str
    tags: dict[str, str]
    since: datetime = field(default_factory=utcnow)
    policies: dict[str, AssociatedPolicy] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """Return the entry as EKS describes it."""
        return {
            "clusterName": self.cluster,
            "principalArn": self.principal,
            "accessEntryArn": self.arn,
            "type": self.type,
            "kubernetesGroups": self.groups,
            "username": self.username,
            "tags": self.tags,
            "createdAt": self.since,
            "modifiedAt": self.since,
        }


def _message(text: str) -> dict[str, str | None]:
    return {"clusterName": None, "nodegroupName": None, "fargateProfileName": None, "addonName": None, "message": text}


def default_username(principal: str, kind: str) -> str:
    """Return the username of a principal whose entry has none.

    >>> default_username("arn:aws:iam::123456789012:role/team/ops", "STANDARD")
    'arn:aws:sts::123456789012:assumed-role/ops/{{SessionName}}'
    >>> default_username("arn:aws:iam::123456789012:role/node", "EC2_LINUX")
    'system:node:{{EC2PrivateDNSName}}'
    """
    if kind in ("EC2", "HYBRID_LINUX", "HYPERPOD_LINUX", "FARGATE_LINUX"):
        return "system:node:{{SessionName}}"
    if kind in NODE_TYPES:
        return "system:node:{{EC2PrivateDNSName}}"
    partition, account, resource = principal.split(":")[1], principal.split(":")[4], principal.split(":", 5)[5]
    if resource.startswith("role/"):
        return f"arn:{partition}:sts::{account}:assumed-role/{resource.rpartition('/')[2]}/{{{{SessionName}}}}"
    return principal


def principal_problem(principal: str) -> str | None:
    """Return why EKS refuses an access entry for this ARN: its format, or no such user or role in the account."""
    parts = principal.split(":", 5)
    if len(parts) < 6 or parts[2] != "iam" or not parts[5].startswith(("role/", "user/")):
        return "The principalArn parameter format is not valid"
    kind, _, path = parts[5].partition("/")
    if path.startswith("aws-service-role/"):
        return "The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role"
    backend = iam_backends[parts[4]][parts[1]] if parts[4] in iam_backends else None
    known = () if backend is None else list((backend.roles if kind == "role" else backend.users).values())
    return (
        None
        if any(each.arn == principal for each in known)
        else "The specified principalArn is invalid: invalid principal."
    )


@dataclass(slots=True)
class AccessEntries:
    """All entries of one account and region, by cluster and principal."""

    account: str
    region: str
    _entries: dict[tuple[str, str], AccessEntry] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def _cluster(self, name: str) -> None:
        cluster = eks_backends[self.account][self.region].describe_cluster(name)  # raises what EKS would
        if cluster.access_config["authenticationMode"] == "CONFIG_MAP":
            raise InvalidRequestException(
                **_message(
                    "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this "
                    "operation."
                )
            )

    def create(self, cluster: str, principal: str, asked: Mapping[str, Any]) -> AccessEntry:
        """Create an entry. `asked` has the API's keys: type, kubernetesGroups, username, tags."""
        self._cluster(cluster)
        kind, groups, username = (
            asked.get("type") or "STANDARD",
            list(asked.get("kubernetesGroups") or []),
            asked.get("username"),
        )
        _refuse_invalid(principal, kind, groups, username)
        with self._lock:
            if (cluster, principal) in self._entries:
                raise ResourceInUseException(
                    **_message("The specified access entry resource is already in use on this cluster.")
                )
            number = len(self._entries)
            owner_account, resource = principal.split(":", 5)[4:]
            kind_of_principal, _, rest = resource.partition("/")
            owner = f"{kind_of_principal}/{owner_account}/{rest.rpartition('/')[2]}"
            arn = f"arn:aws:eks:{self.region}:{self.account}:access-entry/{cluster}/{owner}/{number:08x}"
            username = username or default_username(principal, kind)
            entry = AccessEntry(
                cluster, principal, arn, kind, NODE_TYPES.get(kind, groups), username, dict(asked.get("tags") or {})
            )
            self._entries[cluster, principal] = entry
        return entry

    def find(self, cluster: str, principal: str) -> AccessEntry:
        """Return an entry; ResourceNotFoundException if the cluster or the entry does not exist."""
        self._cluster(cluster)
        if (entry := self._entries.get((cluster, principal))) is None:
            raise ResourceNotFoundException(
                **_message(
                    "The specified principalArn could not be found. You can view your available access entries with "
                    "'list-access-entries'."
                )
            )
        return entry

    def of(self, cluster: str) -> list[AccessEntry]:
        """Return the entries of a cluster."""
        self._cluster(cluster)
        return [entry for (name, _), entry in list(self._entries.items()) if name == cluster]

    def update(self, cluster: str, principal: str, asked: Mapping[str, Any]) -> AccessEntry:
        """Change groups and user name. EKS refuses this for entries that are not of type STANDARD."""
        entry = self.find(cluster, principal)
        if entry.type != "STANDARD":
            raise InvalidRequestException(**_message(f"Access entries of type {entry.type} cannot be changed."))
        entry.groups = list(asked.get("kubernetesGroups") or [])
        entry.username = asked.get("username") or entry.username
        return entry

    def delete(self, cluster: str, principal: str) -> None:
        """Delete an entry."""
        self.find(cluster, principal)
        self._entries.pop((cluster, principal), None)

    def associate(self, cluster: str, principal: str, policy: str, scope: Mapping[str, Any]) -> AssociatedPolicy:
        """Associate an access policy. EKS refuses entries of node types, and unknown policies."""
        entry = self.find(cluster, principal)
        if entry.type in NODE_TYPES:
            raise InvalidRequestException(**_message(f"Access entries of type {entry.type} take no access policies."))
        if policy not in map(policy_arn, POLICIES):
            raise ResourceNotFoundException(**_message(f"The policyArn parameter value is not valid: {policy}."))
        if scope.get("type") == "namespace" and not scope.get("namespaces"):
            raise InvalidParameterException(**_message("An access scope of type namespace needs namespaces."))
        entry.policies[policy] = AssociatedPolicy(policy, scope)
        return entry.policies[policy]

    def disassociate(self, cluster: str, principal: str, policy: str) -> None:
        """Remove an access policy of an entry. EKS refuses one that is not associated."""
        if self.find(cluster, principal).policies.pop(policy, None) is None:
            raise ResourceNotFoundException(**_message(f"No associated access policy found for: {policy}."))


_STORES: dict[tuple[str, str], AccessEntries] = {}


def access_entries(account: str, region: str) -> AccessEntries:
    """Return the store of an account and region, which API and CloudFormation share."""
    return _STORES.setdefault((account, region), AccessEntries(account, region))


class CloudFormationAccessEntry(CloudFormationModel):  # type: ignore[misc] # moto has no types
    """`AWS::EKS::AccessEntry`. Ref is the principal's ARN and the cluster's name, joined by a bar."""

    def __init__(self, entry: AccessEntry) -> None:
        self.entry = entry
        self.physical_resource_id = f"{entry.principal}|{entry.cluster}"

    @staticmethod
    def cloudformation_name_type() -> str:
        """Return nothing: no property is the name."""
        return ""

    @staticmethod
    def cloudformation_type() -> str:
        """Return the name of the resource type."""
        return "AWS::EKS::AccessEntry"

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        """Return whether Fn::GetAtt may name the attribute."""
        return attr == "AccessEntryArn"

    def get_cfn_attribute(self, _attribute_name: str) -> str:
        """Return the ARN, its only attribute."""
        return self.entry.arn

    @classmethod
    def create_from_cloudformation_json(
        cls, _resource_name: str, cloudformation_json: Mapping[str, Any], account_id: str, region_name: str, **_: Any
    ) -> "CloudFormationAccessEntry":
        """Create the entry and associate its policies."""
        properties = cloudformation_json["Properties"]
        store = access_entries(account_id, region_name)
        cluster, principal = properties["ClusterName"], properties["PrincipalArn"]
        asked = {
            "type": properties.get("Type"),
            "kubernetesGroups": properties.get("KubernetesGroups"),
            "username": properties.get("Username"),
            "tags": {tag["Key"]: tag["Value"] for tag in properties.get("Tags") or []},
        }
        entry = store.create(cluster, principal, asked)
        try:
            _associate_all(store, entry, properties)
        except Exception:
            store.delete(cluster, principal)
            raise
        return cls(entry)

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: "CloudFormationAccessEntry",
        _new_name: str,
        cloudformation_json: Mapping[str, Any],
        account_id: str,
        region_name: str,
    ) -> "CloudFormationAccessEntry":
        """Replace the entry when cluster, principal or type change: they are immutable, and the old entry is deleted
        afterwards.
        """
        properties = cloudformation_json["Properties"]
        store, old = access_entries(account_id, region_name), original_resource.entry
        if (properties["ClusterName"], properties["PrincipalArn"], properties.get("Type") or "STANDARD") != (
            old.cluster,
            old.principal,
            old.type,
        ):
            store.delete(old.cluster, old.principal)
            return cls.create_from_cloudformation_json(_new_name, cloudformation_json, account_id, region_name)
        if old.type == "STANDARD":
            asked = {"kubernetesGroups": properties.get("KubernetesGroups"), "username": properties.get("Username")}
            store.update(old.cluster, old.principal, asked)
        old.policies.clear()
        _associate_all(store, old, properties)
        return original_resource

    def delete(self, account_id: str, region_name: str) -> None:
        """Delete the entry, unless another one took its place."""
        store = access_entries(account_id, region_name)
        if any(entry is self.entry for entry in store.of(self.entry.cluster)):
            store.delete(self.entry.cluster, self.entry.principal)


def _associate_all(store: AccessEntries, entry: AccessEntry, properties: Mapping[str, Any]) -> None:
    for policy in properties.get("AccessPolicies") or []:
        scope = {"type": policy["AccessScope"]["Type"], "namespaces": policy["AccessScope"].get("Namespaces")}
        store.associate(entry.cluster, entry.principal, policy["PolicyArn"], scope)


def _refuse_invalid(principal: str, kind: str, groups: Sequence[str], username: str | None) -> None:
    """Raise the error of EKS for an entry that it does not accept."""
    if kind not in TYPES:
        raise InvalidParameterException(**_message(f"The access entry type {kind} is not valid."))
    if (problem := principal_problem(principal)) is not None:
        raise InvalidParameterException(**_message(problem))
    if kind != "STANDARD" and (groups or username):
        raise InvalidRequestException(
            **_message(f"Access entries of type {kind} take no kubernetesGroups and no username.")
        )
    if reserved := [group for group in groups if group.startswith(RESERVED_PREFIXES)]:
        raise InvalidParameterException(
            **_message(f"The kubernetes group name {reserved[0]} is invalid, it cannot start with a reserved prefix.")
        )
    if username and username.startswith(RESERVED_PREFIXES):
        raise InvalidParameterException(
            **_message(f"The username {username} is invalid, it cannot start with a reserved prefix.")
        )
