"""EKS access entries: the cluster's user and groups of an IAM principal."""

from typing import Any

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    ResourceType,
    ServiceClients,
)


def _create(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
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
    return CreatedResource(f"{properties['PrincipalArn']}|{properties['ClusterName']}", {"AccessEntryArn": arn})


def _entry(existing: ExistingResource) -> dict[str, str]:
    return {"clusterName": existing.properties["ClusterName"], "principalArn": existing.properties["PrincipalArn"]}


def _policies(existing: ExistingResource) -> dict[str, Any]:
    return {policy["PolicyArn"]: policy["AccessScope"] for policy in existing.properties.get("AccessPolicies") or []}


def _associate(clients: ServiceClients, existing: ExistingResource) -> None:
    for arn, scope in _policies(existing).items():
        wanted = {"type": scope["Type"], "namespaces": scope.get("Namespaces") or []}
        clients.call("eks", "associate_access_policy", **_entry(existing), policyArn=arn, accessScope=wanted)


def _update(clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource) -> CreatedResource:
    clients.call(
        "eks",
        "update_access_entry",
        **_entry(existing),
        kubernetesGroups=declared.properties.get("KubernetesGroups") or [],
        username=declared.properties.get("Username"),
    )
    for arn in set(_policies(existing)) - set(_policies(ExistingResource(existing.made, declared))):
        clients.call("eks", "disassociate_access_policy", **_entry(existing), policyArn=arn)
    return existing.made


def _forget(clients: ServiceClients, existing: ExistingResource) -> None:
    clients.call("eks", "delete_access_entry", **_entry(existing))


TYPES = (
    ResourceType(
        name="AWS::EKS::AccessEntry",
        honoured="AccessPolicies.AccessScope.Namespaces AccessPolicies.AccessScope.Type AccessPolicies.PolicyArn "
        "ClusterName"
        " KubernetesGroups PrincipalArn Tags Type Username",
        attributes="AccessEntryArn",
        immutable="ClusterName PrincipalArn Type",
        create=_create,
        configure=_associate,
        update=_update,
        delete=_forget,
    ),
)
