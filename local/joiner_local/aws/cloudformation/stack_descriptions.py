"""Stacks, events, resources and change sets as CloudFormation's API describes them: dictionaries that moto writes as
XML.
"""

import json
from collections.abc import Mapping
from typing import Any

from joiner_local.aws.cloudformation.stack_templates import StackTemplate
from joiner_local.aws.cloudformation.stacks import ChangeSet, CloudFormationStack, StackEvent


def stack_summary(stack: CloudFormationStack) -> dict[str, Any]:
    return {
        "StackId": stack.stack_id,
        "StackName": stack.name,
        "TemplateDescription": stack.wish.template.description if stack.wish else None,
        "CreationTime": stack.created,
        "LastUpdatedTime": stack.updated,
        "DeletionTime": stack.deleted,
        "StackStatus": stack.status,
        "StackStatusReason": stack.reason,
    }


def stack_description(stack: CloudFormationStack) -> dict[str, Any]:
    wish = stack.wish
    settled = not stack.busy and stack.status not in ("REVIEW_IN_PROGRESS", "CREATE_FAILED", "ROLLBACK_COMPLETE")
    outputs = [
        {
            "OutputKey": output.key,
            "OutputValue": output.value,
            "Description": output.description,
            "ExportName": output.export_name,
        }
        for output in (stack.outputs if settled else ())
    ]
    return {
        **stack_summary(stack),
        "Description": wish.template.description if wish else None,
        "DisableRollback": stack.rollback_disabled,
        "RoleARN": stack.role_arn,
        "NotificationARNs": list(stack.notification_arns),
        "Capabilities": list(stack.capabilities),
        "EnableTerminationProtection": stack.protected,
        "Tags": pairs(wish.tags if wish else {}),
        "Parameters": _shown_parameters(stack) if wish else [],
        "Outputs": outputs,
    }


def pairs(values: Mapping[str, str], key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
    return [{key: name, value: text} for name, text in values.items()]


def _shown_parameters(stack: CloudFormationStack) -> list[dict[str, Any]]:
    assert stack.wish is not None
    slots = stack.wish.template.section("Parameters")
    shown = []
    for name, value in stack.parameters.items():
        given = str(stack.wish.given.get(name, slots.get(name, {}).get("Default")))
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        if slots.get(name, {}).get("NoEcho"):
            given = text = "****"
        shown.append({"ParameterKey": name, "ParameterValue": given, "ResolvedValue": text if text != given else None})
    return shown


def parameter_slots(template: StackTemplate) -> list[dict[str, Any]]:
    return [
        {
            "ParameterKey": name,
            "DefaultValue": slot.get("Default"),
            "ParameterType": slot.get("Type", "String"),
            "NoEcho": bool(slot.get("NoEcho")),
            "Description": slot.get("Description"),
        }
        for name, slot in template.section("Parameters").items()
    ]


def event_description(stack: CloudFormationStack, event: StackEvent) -> dict[str, Any]:
    return {
        "StackId": stack.stack_id,
        "EventId": event.id,
        "StackName": stack.name,
        "LogicalResourceId": event.logical_id,
        "PhysicalResourceId": event.physical_id,
        "ResourceType": event.type,
        "Timestamp": event.at,
        "ResourceStatus": event.status,
        "ResourceStatusReason": event.reason,
        "ResourceProperties": json.dumps(event.properties, default=str) if event.properties is not None else None,
    }


def resource_description(stack: CloudFormationStack, name: str) -> dict[str, Any]:
    resource, event = stack.resources[name], stack.last_event_of(name)
    assert event is not None
    return {
        "StackName": stack.name,
        "StackId": stack.stack_id,
        "LogicalResourceId": name,
        "PhysicalResourceId": resource.physical_id,
        "ResourceType": resource.declared.type,
        "Timestamp": event.at,
        "LastUpdatedTimestamp": event.at,
        "ResourceStatus": event.status,
        "ResourceStatusReason": event.reason,
    }


def change_set_summary(stack: CloudFormationStack, change_set: ChangeSet) -> dict[str, Any]:
    return {
        "ChangeSetName": change_set.name,
        "ChangeSetId": change_set.id,
        "StackId": stack.stack_id,
        "StackName": stack.name,
        "Description": change_set.description,
        "CreationTime": change_set.created,
        "ExecutionStatus": change_set.execution_status,
        "Status": change_set.status,
        "StatusReason": change_set.reason,
    }
