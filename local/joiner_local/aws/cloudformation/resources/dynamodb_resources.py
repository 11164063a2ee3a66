"""DynamoDB: tables, with expiry of items and point-in-time recovery."""

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    ResourceType,
    ServiceClients,
    calling,
)

TABLE = (
    "AttributeDefinitions",
    "BillingMode",
    "DeletionProtectionEnabled",
    "GlobalSecondaryIndexes",
    "KeySchema",
    "LocalSecondaryIndexes",
    "ProvisionedThroughput",
    "TableClass",
)


def _create(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    stream = declared.properties.get("StreamSpecification")
    encryption = declared.properties.get("SSESpecification")
    answer = clients.call(
        "dynamodb",
        "create_table",
        TableName=declared.name("TableName", limit=255),
        Tags=declared.tag_list,
        StreamSpecification={"StreamEnabled": True, **stream} if stream else None,
        SSESpecification={("Enabled" if key == "SSEEnabled" else key): value for key, value in encryption.items()}
        if encryption
        else None,
        **declared.pick(*TABLE),
    )
    table = answer["TableDescription"]
    stream_arn = {"StreamArn": table["LatestStreamArn"]} if "LatestStreamArn" in table else {}
    return CreatedResource(table["TableName"], {"Arn": table["TableArn"], **stream_arn})


def _configure(clients: ServiceClients, existing: ExistingResource) -> None:
    name, properties = existing.physical_id, existing.properties
    expiry = properties.get("TimeToLiveSpecification") or {}
    wanted = str(expiry.get("Enabled", False)).lower() == "true"
    has = clients["dynamodb"].describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    if wanted != (has["TimeToLiveStatus"] == "ENABLED"):
        specification = expiry if wanted else {"Enabled": False, "AttributeName": has["AttributeName"]}
        clients.call("dynamodb", "update_time_to_live", TableName=name, TimeToLiveSpecification=specification)
    if "PointInTimeRecoverySpecification" in properties:
        clients.call(
            "dynamodb",
            "update_continuous_backups",
            TableName=name,
            PointInTimeRecoverySpecification=properties["PointInTimeRecoverySpecification"],
        )


def _update(clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource) -> CreatedResource:
    before, after = existing.properties, declared.properties
    changeable = ("BillingMode", "DeletionProtectionEnabled", "ProvisionedThroughput", "TableClass")
    changed = {name: after[name] for name in changeable if name in after and before.get(name) != after[name]}
    if changed:
        clients.call("dynamodb", "update_table", TableName=existing.physical_id, **changed)
    if declared.tags:
        clients.call("dynamodb", "tag_resource", ResourceArn=existing.made.attributes["Arn"], Tags=declared.tag_list)
    return existing.made


TYPES = (
    ResourceType(
        name="AWS::DynamoDB::Table",
        honoured=" ".join(TABLE) + " PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled SSESpecification "
        "StreamSpecification.StreamViewType TableName Tags"
        " TimeToLiveSpecification.AttributeName TimeToLiveSpecification.Enabled",
        ignored={
            "ContributorInsightsSpecification": "no call reads insights here",
            "PointInTimeRecoverySpecification.RecoveryPeriodInDays": "moto keeps no backups",
        },
        attributes="Arn StreamArn",
        immutable="AttributeDefinitions GlobalSecondaryIndexes KeySchema LocalSecondaryIndexes SSESpecification "
        "StreamSpecification"
        " TableName",
        named_by="TableName",
        create=_create,
        configure=_configure,
        update=_update,
        delete=calling("dynamodb", "delete_table", "TableName"),
    ),
)
