"""EventBridge Scheduler: schedules and their groups."""

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    ResourceType,
    ServiceClients,
    calling,
)
from joiner_local.aws.local_aws import ACCOUNT, REGION

SCHEDULE = (
    "Description",
    "EndDate",
    "FlexibleTimeWindow",
    "GroupName",
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "StartDate",
    "State",
    "Target",
)


def _create(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    name = declared.name("Name")
    answer = clients.call("scheduler", "create_schedule", Name=name, **declared.pick(*SCHEDULE))
    return CreatedResource(name, {"Arn": answer["ScheduleArn"]})


def _update(clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource) -> CreatedResource:
    clients.call("scheduler", "update_schedule", Name=existing.physical_id, **declared.pick(*SCHEDULE))
    return existing.made


def _delete(clients: ServiceClients, existing: ExistingResource) -> None:
    clients.call("scheduler", "delete_schedule", Name=existing.physical_id, **existing.declared.pick("GroupName"))


def _create_group(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    name = declared.name("Name")
    clients.call("scheduler", "create_schedule_group", Name=name, Tags=declared.tag_list)
    return CreatedResource(name, {"Arn": f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule-group/{name}"})


TYPES = (
    ResourceType(
        name="AWS::Scheduler::Schedule",
        honoured="Description EndDate FlexibleTimeWindow GroupName Name ScheduleExpression "
        "ScheduleExpressionTimezone StartDate State"
        " Target.Arn Target.DeadLetterConfig Target.Input Target.RetryPolicy Target.RoleArn Target.SqsParameters",
        attributes="Arn",
        immutable="GroupName Name",
        named_by="Name",
        create=_create,
        update=_update,
        delete=_delete,
    ),
    ResourceType(
        name="AWS::Scheduler::ScheduleGroup",
        honoured="Name Tags",
        attributes="Arn",
        immutable="Name Tags",
        named_by="Name",
        create=_create_group,
        delete=calling("scheduler", "delete_schedule_group", "Name"),
    ),
)
