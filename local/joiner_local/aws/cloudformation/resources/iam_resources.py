"""IAM: roles, their policies, instance profiles. `joiner_local.aws.iam` evaluates them."""

import json
from typing import Any

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    ResourceType,
    ServiceClients,
)


def _document(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _create_role(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    answer = clients.call(
        "iam",
        "create_role",
        RoleName=declared.name("RoleName"),
        AssumeRolePolicyDocument=_document(declared.properties["AssumeRolePolicyDocument"]),
        Tags=declared.tag_list,
        **declared.pick("Description", "MaxSessionDuration", "Path", "PermissionsBoundary"),
    )
    role = answer["Role"]
    return CreatedResource(role["RoleName"], {"Arn": role["Arn"], "RoleId": role["RoleId"]})


def _configure_role(clients: ServiceClients, existing: ExistingResource) -> None:
    name, properties = existing.physical_id, existing.properties
    for arn in properties.get("ManagedPolicyArns") or []:
        clients.call("iam", "attach_role_policy", RoleName=name, PolicyArn=arn)
    for policy in properties.get("Policies") or []:
        document = _document(policy["PolicyDocument"])
        clients.call("iam", "put_role_policy", RoleName=name, PolicyName=policy["PolicyName"], PolicyDocument=document)


def _update_role(clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource) -> CreatedResource:
    name, before, after = existing.physical_id, existing.properties, declared.properties
    trust = _document(after["AssumeRolePolicyDocument"])
    clients.call("iam", "update_assume_role_policy", RoleName=name, PolicyDocument=trust)
    clients.call(
        "iam",
        "update_role",
        RoleName=name,
        Description=after.get("Description", ""),
        MaxSessionDuration=after.get("MaxSessionDuration", 3600),
    )
    for arn in set(before.get("ManagedPolicyArns") or []) - set(after.get("ManagedPolicyArns") or []):
        clients.call("iam", "detach_role_policy", RoleName=name, PolicyArn=arn)
    kept = {policy["PolicyName"] for policy in after.get("Policies") or []}
    for policy in before.get("Policies") or []:
        if policy["PolicyName"] not in kept:
            clients.call("iam", "delete_role_policy", RoleName=name, PolicyName=policy["PolicyName"])
    clients.call("iam", "tag_role", RoleName=name, Tags=declared.tag_list)
    return existing.made


def _delete_role(clients: ServiceClients, existing: ExistingResource) -> None:
    name, iam = existing.physical_id, clients["iam"]
    for policy in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
        iam.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        iam.delete_role_policy(RoleName=name, PolicyName=policy)
    iam.delete_role(RoleName=name)


def _put_inline_policy(clients: ServiceClients, existing: ExistingResource) -> None:
    properties = existing.properties
    document = _document(properties["PolicyDocument"])
    for role in properties["Roles"]:
        clients.call(
            "iam", "put_role_policy", RoleName=role, PolicyName=properties["PolicyName"], PolicyDocument=document
        )


def _update_inline_policy(
    clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource
) -> CreatedResource:
    for role in set(existing.properties["Roles"]) - set(declared.properties["Roles"]):
        clients.call("iam", "delete_role_policy", RoleName=role, PolicyName=existing.properties["PolicyName"])
    return existing.made


def _delete_inline_policy(clients: ServiceClients, existing: ExistingResource) -> None:
    for role in existing.properties["Roles"]:
        clients.call("iam", "delete_role_policy", RoleName=role, PolicyName=existing.properties["PolicyName"])


def _create_managed_policy(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    answer = clients.call(
        "iam",
        "create_policy",
        PolicyName=declared.name("ManagedPolicyName"),
        PolicyDocument=_document(declared.properties["PolicyDocument"]),
        **declared.pick("Description", "Path"),
    )
    arn = answer["Policy"]["Arn"]
    return CreatedResource(arn, {"PolicyArn": arn})


def _attach_managed_policy(clients: ServiceClients, existing: ExistingResource) -> None:
    for role in existing.properties.get("Roles") or []:
        clients.call("iam", "attach_role_policy", RoleName=role, PolicyArn=existing.physical_id)


def _update_managed_policy(
    clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource
) -> CreatedResource:
    arn, iam = existing.physical_id, clients["iam"]
    for role in set(existing.properties.get("Roles") or []) - set(declared.properties.get("Roles") or []):
        iam.detach_role_policy(RoleName=role, PolicyArn=arn)
    iam.create_policy_version(
        PolicyArn=arn, PolicyDocument=_document(declared.properties["PolicyDocument"]), SetAsDefault=True
    )
    for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
        if not version["IsDefaultVersion"]:
            iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
    return existing.made


def _delete_managed_policy(clients: ServiceClients, existing: ExistingResource) -> None:
    iam = clients["iam"]
    for role in iam.list_entities_for_policy(PolicyArn=existing.physical_id)["PolicyRoles"]:
        iam.detach_role_policy(RoleName=role["RoleName"], PolicyArn=existing.physical_id)
    iam.delete_policy(PolicyArn=existing.physical_id)


def _create_profile(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    name = declared.name("InstanceProfileName", limit=128)
    answer = clients.call("iam", "create_instance_profile", InstanceProfileName=name, **declared.pick("Path"))
    return CreatedResource(name, {"Arn": answer["InstanceProfile"]["Arn"]})


def _set_profile_role(clients: ServiceClients, existing: ExistingResource) -> None:
    name, iam = existing.physical_id, clients["iam"]
    has = [role["RoleName"] for role in iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]]
    if has == list(existing.properties["Roles"]):
        return
    for role in has:
        iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role)
    for role in existing.properties["Roles"]:
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)


def _delete_profile(clients: ServiceClients, existing: ExistingResource) -> None:
    name, iam = existing.physical_id, clients["iam"]
    for role in iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]:
        iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role["RoleName"])
    iam.delete_instance_profile(InstanceProfileName=name)


TYPES = (
    ResourceType(
        name="AWS::IAM::Role",
        honoured="AssumeRolePolicyDocument Description ManagedPolicyArns MaxSessionDuration Path PermissionsBoundary"
        " Policies.PolicyDocument Policies.PolicyName RoleName Tags",
        attributes="Arn RoleId",
        immutable="RoleName Path",
        named_by="RoleName",
        create=_create_role,
        configure=_configure_role,
        update=_update_role,
        delete=_delete_role,
    ),
    ResourceType(
        name="AWS::IAM::Policy",  # Users and Groups: there are none here
        honoured="PolicyDocument PolicyName Roles",
        immutable="PolicyName",
        create=lambda _clients, declared: CreatedResource(declared.name("", limit=128)),
        configure=_put_inline_policy,
        update=_update_inline_policy,
        delete=_delete_inline_policy,
    ),
    ResourceType(
        name="AWS::IAM::ManagedPolicy",
        honoured="Description ManagedPolicyName Path PolicyDocument Roles",
        attributes="PolicyArn",
        immutable="Description ManagedPolicyName Path",
        named_by="ManagedPolicyName",
        create=_create_managed_policy,
        configure=_attach_managed_policy,
        update=_update_managed_policy,
        delete=_delete_managed_policy,
    ),
    ResourceType(
        name="AWS::IAM::InstanceProfile",
        honoured="InstanceProfileName Path Roles",
        attributes="Arn",
        immutable="InstanceProfileName Path",
        named_by="InstanceProfileName",
        create=_create_profile,
        configure=_set_profile_role,
        delete=_delete_profile,
    ),
)
