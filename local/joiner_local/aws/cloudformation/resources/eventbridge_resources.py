"""EventBridge rules and their targets."""

import json

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    ResourceType,
    ServiceClients,
)
from joiner_local.aws.local_aws import ACCOUNT, REGION


def _create(_clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    name = declared.name("Name")
    bus = declared.properties.get("EventBusName", "default")
    within = "" if bus == "default" else f"{bus.rsplit('/', 1)[-1]}/"
    return CreatedResource(name, {"Arn": f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{within}{name}"})


def _put(clients: ServiceClients, existing: ExistingResource) -> None:
    properties, name = existing.properties, existing.physical_id
    pattern = properties.get("EventPattern")
    clients.call(
        "events",
        "put_rule",
        Name=name,
        EventPattern=json.dumps(pattern) if pattern is not None else None,
        Tags=existing.declared.tag_list or None,
        **existing.declared.pick("Description", "EventBusName", "RoleArn", "State"),
    )
    if properties.get("Targets"):
        bus = existing.declared.pick("EventBusName")
        answer = clients.call("events", "put_targets", Rule=name, Targets=properties["Targets"], **bus)
        if answer["FailedEntryCount"]:
            raise ValueError(f"targets refused: {answer['FailedEntries']}")


def _remove_targets(clients: ServiceClients, existing: ExistingResource, keep: frozenset[str]) -> None:
    gone = [target["Id"] for target in existing.properties.get("Targets") or [] if target["Id"] not in keep]
    if gone:
        clients.call(
            "events", "remove_targets", Rule=existing.physical_id, Ids=gone, **existing.declared.pick("EventBusName")
        )


def _update(clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource) -> CreatedResource:
    _remove_targets(clients, existing, frozenset(target["Id"] for target in declared.properties.get("Targets") or []))
    return existing.made


def _delete(clients: ServiceClients, existing: ExistingResource) -> None:
    _remove_targets(clients, existing, frozenset())
    clients.call("events", "delete_rule", Name=existing.physical_id, **existing.declared.pick("EventBusName"))


TYPES = (
    ResourceType(
        name="AWS::Events::Rule",
        honoured="Description EventBusName EventPattern Name RoleArn State Tags Targets.Arn Targets.DeadLetterConfig"
        " Targets.Id Targets.Input Targets.InputPath Targets.InputTransformer Targets.RetryPolicy Targets.RoleArn "
        "Targets.SqsParameters",
        attributes="Arn",
        immutable="EventBusName Name",
        named_by="Name",
        create=_create,
        configure=_put,
        update=_update,
        delete=_delete,
    ),
)
