"""EKS's actions for access entries."""

from typing import Any, Final
from urllib.parse import unquote

from moto.core.responses import ActionResult
from moto.eks.responses import EKSResponse

from joiner_local.aws.attribute_patches import replace_attribute
from joiner_local.aws.eks.access_entries import POLICIES, AccessEntries, access_entries, policy_arn


def _asked(response: Any) -> tuple[AccessEntries, str, str]:
    """Return store, cluster and principal of a request; the ARN in the path is percent-encoded."""
    _, _, cluster, *rest = response.path.split("/")
    principal = "/".join(rest[1:]).partition("/access-policies")[0]
    return access_entries(response.current_account, response.region), cluster, unquote(principal)


def create_access_entry(response: Any) -> ActionResult:
    """Create an entry. EKS refuses a principal that has one, and settings that the type does not take."""
    store, cluster, _ = _asked(response)
    asked = {key: response._get_param(key) for key in ("type", "kubernetesGroups", "username", "tags")}
    return ActionResult({"accessEntry": store.create(cluster, response._get_param("principalArn"), asked).describe()})


def describe_access_entry(response: Any) -> ActionResult:
    """Return one entry."""
    store, cluster, principal = _asked(response)
    return ActionResult({"accessEntry": store.find(cluster, principal).describe()})


def list_access_entries(response: Any) -> ActionResult:
    """Return the principals of the entries, or of those with a policy."""
    store, cluster, _ = _asked(response)
    wanted = response._get_param("associatedPolicyArn")
    found = [entry.principal for entry in store.of(cluster) if not wanted or wanted in entry.policies]
    return ActionResult({"accessEntries": found})


def update_access_entry(response: Any) -> ActionResult:
    """Change an entry. EKS refuses types other than STANDARD."""
    store, cluster, principal = _asked(response)
    asked = {key: response._get_param(key) for key in ("kubernetesGroups", "username")}
    return ActionResult({"accessEntry": store.update(cluster, principal, asked).describe()})


def delete_access_entry(response: Any) -> ActionResult:
    """Delete an entry."""
    store, cluster, principal = _asked(response)
    store.delete(cluster, principal)
    return ActionResult({})


def associate_access_policy(response: Any) -> ActionResult:
    """Associate a policy with an entry. EKS refuses entries of node types."""
    store, cluster, principal = _asked(response)
    policy = store.associate(
        cluster, principal, response._get_param("policyArn"), response._get_param("accessScope") or {}
    )
    return ActionResult(
        {"clusterName": cluster, "principalArn": principal, "associatedAccessPolicy": policy.describe()}
    )


def disassociate_access_policy(response: Any) -> ActionResult:
    """Remove a policy of an entry. EKS refuses one that is not associated."""
    store, cluster, principal = _asked(response)
    store.disassociate(cluster, principal, unquote(response.path.partition("/access-policies/")[2]))
    return ActionResult({})


def list_associated_access_policies(response: Any) -> ActionResult:
    """Return the policies of an entry."""
    store, cluster, principal = _asked(response)
    policies = [policy.describe() for policy in store.find(cluster, principal).policies.values()]
    return ActionResult({"clusterName": cluster, "principalArn": principal, "associatedAccessPolicies": policies})


def list_access_policies(_response: Any) -> ActionResult:
    """Return the policies that EKS has."""
    return ActionResult({"accessPolicies": [{"name": name, "arn": policy_arn(name)} for name in POLICIES]})


OPERATIONS: Final = (
    create_access_entry,
    describe_access_entry,
    list_access_entries,
    update_access_entry,
    delete_access_entry,
    associate_access_policy,
    disassociate_access_policy,
    list_associated_access_policies,
    list_access_policies,
)


PATHS: Final = (
    "{0}/access-policies$",
    "{0}/clusters/(?P<name>[^/]+)/access-entries$",
    "{0}/clusters/(?P<name>[^/]+)/access-entries/(?P<principalArn>.+)/access-policies$",
    "{0}/clusters/(?P<name>[^/]+)/access-entries/(?P<principalArn>.+)/access-policies/(?P<policyArn>.+)$",
    "{0}/clusters/(?P<name>[^/]+)/access-entries/(?P<principalArn>.+)$",
)


def install() -> None:
    """Install the actions in moto."""
    for operation in OPERATIONS:
        replace_attribute(EKSResponse, operation.__name__, operation)
