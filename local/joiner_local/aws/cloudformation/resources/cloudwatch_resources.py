"""CloudWatch and CloudWatch Logs: groups, filters, alarms, dashboards. Alarms are stored; nothing evaluates them
here.
"""

import json

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    ResourceType,
    ServiceClients,
    calling,
    lower_first,
)
from joiner_local.aws.local_aws import ACCOUNT, REGION


def _create_group(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    name = declared.name("LogGroupName", limit=512)
    clients.call("logs", "create_log_group", logGroupName=name, tags=declared.tags or None)
    return CreatedResource(name, {"Arn": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{name}:*"})


def _configure_group(clients: ServiceClients, existing: ExistingResource) -> None:
    days = existing.properties.get("RetentionInDays")
    if days is not None:
        clients.call("logs", "put_retention_policy", logGroupName=existing.physical_id, retentionInDays=days)


def _update_group(clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource) -> CreatedResource:
    if "RetentionInDays" in existing.properties and "RetentionInDays" not in declared.properties:
        clients.call("logs", "delete_retention_policy", logGroupName=existing.physical_id)
    return existing.made


def _put_subscription_filter(clients: ServiceClients, existing: ExistingResource) -> None:
    wanted = existing.declared.pick("LogGroupName", "FilterPattern", "DestinationArn", "RoleArn", "Distribution")
    clients.call("logs", "put_subscription_filter", filterName=existing.physical_id, **lower_first(wanted))


def _put_metric_filter(clients: ServiceClients, existing: ExistingResource) -> None:
    properties = existing.properties
    clients.call(
        "logs",
        "put_metric_filter",
        filterName=existing.physical_id,
        logGroupName=properties["LogGroupName"],
        filterPattern=properties["FilterPattern"],
        metricTransformations=[
            {**lower_first({k: v for k, v in each.items() if k != "Dimensions"})}
            | (
                {"dimensions": {pair["Key"]: pair["Value"] for pair in each["Dimensions"]}}
                if "Dimensions" in each
                else {}
            )
            for each in properties["MetricTransformations"]
        ],
    )


def _delete_filter(clients: ServiceClients, existing: ExistingResource, operation: str) -> None:
    clients.call("logs", operation, logGroupName=existing.properties["LogGroupName"], filterName=existing.physical_id)


ALARM = (
    "ActionsEnabled AlarmActions AlarmDescription ComparisonOperator DatapointsToAlarm Dimensions "
    "EvaluateLowSampleCountPercentile"
    " EvaluationPeriods ExtendedStatistic InsufficientDataActions MetricName Metrics Namespace OKActions Period "
    "Statistic Threshold"
    " ThresholdMetricId TreatMissingData Unit"
)


def _named_alarm(_clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    name = declared.name("AlarmName", limit=255)
    return CreatedResource(name, {"Arn": f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{name}"})


def _put_alarm(clients: ServiceClients, existing: ExistingResource) -> None:
    clients.call(
        "cloudwatch", "put_metric_alarm", AlarmName=existing.physical_id, **existing.declared.pick(*ALARM.split())
    )


def _delete_alarm(clients: ServiceClients, existing: ExistingResource) -> None:
    clients.call("cloudwatch", "delete_alarms", AlarmNames=[existing.physical_id])


def _put_dashboard(clients: ServiceClients, existing: ExistingResource) -> None:
    body = existing.properties["DashboardBody"]
    text = body if isinstance(body, str) else json.dumps(body)
    clients.call("cloudwatch", "put_dashboard", DashboardName=existing.physical_id, DashboardBody=text)


def _delete_dashboard(clients: ServiceClients, existing: ExistingResource) -> None:
    clients.call("cloudwatch", "delete_dashboards", DashboardNames=[existing.physical_id])


TYPES = (
    ResourceType(
        name="AWS::Logs::LogGroup",
        honoured="LogGroupName RetentionInDays Tags",
        ignored={"LogGroupClass": "one kind of log group here", "KmsKeyId": "nothing here is encrypted at rest"},
        attributes="Arn",
        immutable="LogGroupName",
        named_by="LogGroupName",
        create=_create_group,
        configure=_configure_group,
        update=_update_group,
        delete=calling("logs", "delete_log_group", "logGroupName"),
    ),
    ResourceType(
        name="AWS::Logs::SubscriptionFilter",
        honoured="DestinationArn Distribution FilterName FilterPattern LogGroupName RoleArn",
        immutable="FilterName LogGroupName",
        create=lambda _clients, declared: CreatedResource(declared.name("FilterName", limit=512)),
        configure=_put_subscription_filter,
        delete=lambda clients, existing: _delete_filter(clients, existing, "delete_subscription_filter"),
    ),
    ResourceType(
        name="AWS::Logs::MetricFilter",
        honoured="FilterName FilterPattern LogGroupName MetricTransformations",
        immutable="FilterName LogGroupName",
        create=lambda _clients, declared: CreatedResource(declared.name("FilterName", limit=512)),
        configure=_put_metric_filter,
        delete=lambda clients, existing: _delete_filter(clients, existing, "delete_metric_filter"),
    ),
    ResourceType(
        name="AWS::CloudWatch::Alarm",
        honoured=f"{ALARM} AlarmName",
        ignored={"Tags": "no call reads an alarm's tags"},
        attributes="Arn",
        immutable="AlarmName",
        named_by="AlarmName",
        create=_named_alarm,
        configure=_put_alarm,
        delete=_delete_alarm,
    ),
    ResourceType(
        name="AWS::CloudWatch::Dashboard",
        honoured="DashboardBody DashboardName",
        immutable="DashboardName",
        named_by="DashboardName",
        create=lambda _clients, declared: CreatedResource(declared.name("DashboardName", limit=255)),
        configure=_put_dashboard,
        delete=_delete_dashboard,
    ),
)
