"""EKS access entries: which role is whom in the cluster."""

from typing import Any

from joiner_local.aws.resource_types import Clients, Declared, Existing, Made, ResourceType


def _create(clients: Clients, declared: Declared) -> Made:
    properties = declared.properties
    answer = clients.call(
        "eks",
        "create_access_entry",
        clusterName=properties["ClusterName"],
        principalArn=properties["PrincipalArn"],
        kubernetesGroups=properties.get("KubernetesGroups"),
        username=properties.get("Username"),
        type=properties.get("Type"),
        tags=declared.tags or None,
    )
    arn = answer["accessEntry"]["accessEntryArn"]
    return Made(f"{properties['PrincipalArn']}|{properties['ClusterName']}", {"AccessEntryArn": arn})


def _entry(existing: Existing) -> dict[str, str]:
    return {"clusterName": existing.properties["ClusterName"], "principalArn": existing.properties["PrincipalArn"]}


def _policies(existing: Existing) -> dict[str, Any]:
    return {policy["PolicyArn"]: policy["AccessScope"] for policy in existing.properties.get("AccessPolicies") or []}


def _associate(clients: Clients, existing: Existing) -> None:
    for arn, scope in _policies(existing).items():
        wanted = {"type": scope["Type"], "namespaces": scope.get("Namespaces") or []}
        clients.call("eks", "associate_access_policy", **_entry(existing), policyArn=arn, accessScope=wanted)


def _update(clients: Clients, existing: Existing, declared: Declared) -> Made:
    clients.call(
        "eks",
        "update_access_entry",
        **_entry(existing),
        kubernetesGroups=declared.properties.get("KubernetesGroups") or [],
        username=declared.properties.get("Username"),
    )
    for arn in set(_policies(existing)) - set(_policies(Existing(existing.made, declared))):
        clients.call("eks", "disassociate_access_policy", **_entry(existing), policyArn=arn)
    return existing.made


def _forget(clients: Clients, existing: Existing) -> None:
    clients.call("eks", "delete_access_entry", **_entry(existing))


TYPES = (
    ResourceType(
        name="AWS::EKS::AccessEntry",
        honoured="AccessPolicies.AccessScope.Namespaces AccessPolicies.AccessScope.Type AccessPolicies.PolicyArn ClusterName"
        " KubernetesGroups PrincipalArn Tags Type Username",
        attributes="AccessEntryArn",
        immutable="ClusterName PrincipalArn Type",
        create=_create,
        configure=_associate,
        update=_update,
        delete=_forget,
    ),
)
