"""Lambda: functions, layers, versions, aliases, permissions, event source mappings."""

import io
import uuid
import zipfile
from typing import Any

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    ResourceType,
    ServiceClients,
    calling,
)

CONFIGURATION = (
    "Description",
    "Environment",
    "EphemeralStorage",
    "Handler",
    "Layers",
    "LoggingConfig",
    "MemorySize",
    "Role",
    "Runtime",
    "Timeout",
    "TracingConfig",
    "VpcConfig",
    "DeadLetterConfig",
)
# The value of a property that an update no longer sets.
DEFAULTS: dict[str, Any] = {
    "Description": "",
    "Environment": {"Variables": {}},
    "EphemeralStorage": {"Size": 512},
    "Layers": [],
    "MemorySize": 128,
    "Timeout": 3,
    "TracingConfig": {"Mode": "PassThrough"},
}


def _code(declared: DeclaredResource) -> dict[str, Any]:
    code = dict(declared.properties["Code"])
    if "ZipFile" in code:  # in a template it is the text of index.py
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr("index.py", code["ZipFile"])
        code["ZipFile"] = archive.getvalue()
    return code


def _create_function(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    answer = clients.call(
        "lambda",
        "create_function",
        FunctionName=declared.name("FunctionName"),
        Code=_code(declared),
        Tags=declared.tags,
        **declared.pick(*CONFIGURATION, "Architectures", "PackageType"),
    )
    return CreatedResource(answer["FunctionName"], {"Arn": answer["FunctionArn"]})


def _configure_function(clients: ServiceClients, existing: ExistingResource) -> None:
    reserved = existing.properties.get("ReservedConcurrentExecutions")
    if reserved is not None:
        clients.call(
            "lambda",
            "put_function_concurrency",
            FunctionName=existing.physical_id,
            ReservedConcurrentExecutions=reserved,
        )


def _update_function(
    clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource
) -> CreatedResource:
    before, after, name = existing.properties, declared.properties, existing.physical_id
    if any(before.get(key) != after.get(key) for key in CONFIGURATION):
        wanted = DEFAULTS | declared.pick(*CONFIGURATION)
        clients.call("lambda", "update_function_configuration", FunctionName=name, **wanted)
    if any(before.get(key) != after.get(key) for key in ("Code", "Architectures")):
        clients.call(
            "lambda", "update_function_code", FunctionName=name, **_code(declared), **declared.pick("Architectures")
        )
    if "ReservedConcurrentExecutions" in before and "ReservedConcurrentExecutions" not in after:
        clients.call("lambda", "delete_function_concurrency", FunctionName=name)
    gone = sorted(set(existing.declared.tags) - set(declared.tags))
    if gone:
        clients.call("lambda", "untag_resource", Resource=existing.made.attributes["Arn"], TagKeys=gone)
    if declared.tags:
        clients.call("lambda", "tag_resource", Resource=existing.made.attributes["Arn"], Tags=declared.tags)
    return existing.made


def _create_layer(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    answer = clients.call(
        "lambda",
        "publish_layer_version",
        LayerName=declared.name("LayerName"),
        **declared.pick("Description", "Content", "CompatibleRuntimes", "CompatibleArchitectures", "LicenseInfo"),
    )
    return CreatedResource(answer["LayerVersionArn"], {"LayerVersionArn": answer["LayerVersionArn"]})


def _delete_layer(clients: ServiceClients, existing: ExistingResource) -> None:
    layer, _, version = existing.physical_id.rpartition(":")
    clients.call("lambda", "delete_layer_version", LayerName=layer.rsplit(":", 1)[-1], VersionNumber=version)


def _split(function: str) -> dict[str, str]:
    """
    >>> _split("arn:aws:lambda:us-east-1:1:function:ring:live")
    {'FunctionName': 'ring', 'Qualifier': 'live'}
    """
    name, _, qualifier = function.rpartition(":function:")[2].partition(":")
    return {"FunctionName": name} | ({"Qualifier": qualifier} if qualifier else {})


def _create_permission(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    statement = declared.name("", limit=100)
    clients.call(
        "lambda",
        "add_permission",
        StatementId=statement,
        **_split(declared.properties["FunctionName"]),
        **declared.pick("Action", "Principal", "SourceArn", "SourceAccount", "PrincipalOrgID", "EventSourceToken"),
    )
    return CreatedResource(statement, {"Id": statement})


def _delete_permission(clients: ServiceClients, existing: ExistingResource) -> None:
    clients.call(
        "lambda", "remove_permission", StatementId=existing.physical_id, **_split(existing.properties["FunctionName"])
    )


def _create_version(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    function = _split(declared.properties["FunctionName"])
    answer = clients.call("lambda", "publish_version", **function, **declared.pick("Description"))
    arn = answer["FunctionArn"]
    if not arn.endswith(f":{answer['Version']}"):
        arn = f"{arn}:{answer['Version']}"
    return CreatedResource(arn, {"Version": answer["Version"], "FunctionArn": arn})


def _delete_version(clients: ServiceClients, existing: ExistingResource) -> None:
    clients.call("lambda", "delete_function", **_split(existing.physical_id))


def _create_alias(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    function = _split(declared.properties["FunctionName"])
    answer = clients.call(
        "lambda", "create_alias", **function, **declared.pick("Name", "FunctionVersion", "Description", "RoutingConfig")
    )
    return CreatedResource(answer["AliasArn"], {"AliasArn": answer["AliasArn"]})


def _update_alias(clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource) -> CreatedResource:
    clients.call(
        "lambda",
        "update_alias",
        FunctionName=_split(declared.properties["FunctionName"])["FunctionName"],
        **declared.pick("Name", "FunctionVersion", "Description", "RoutingConfig"),
    )
    return existing.made


def _delete_alias(clients: ServiceClients, existing: ExistingResource) -> None:
    function = _split(existing.properties["FunctionName"])["FunctionName"]
    clients.call("lambda", "delete_alias", FunctionName=function, Name=existing.properties["Name"])


def _put_invoke_config(clients: ServiceClients, existing: ExistingResource) -> None:
    clients.call(
        "lambda",
        "put_function_event_invoke_config",
        **existing.declared.pick(
            "FunctionName", "Qualifier", "MaximumEventAgeInSeconds", "MaximumRetryAttempts", "DestinationConfig"
        ),
    )


def _delete_invoke_config(clients: ServiceClients, existing: ExistingResource) -> None:
    clients.call("lambda", "delete_function_event_invoke_config", **existing.declared.pick("FunctionName", "Qualifier"))


MAPPING = (
    "BatchSize",
    "Enabled",
    "FunctionResponseTypes",
    "MaximumBatchingWindowInSeconds",
    "ScalingConfig",
    "FunctionName",
)


def _create_mapping(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    answer = clients.call("lambda", "create_event_source_mapping", **declared.pick("EventSourceArn", *MAPPING))
    return CreatedResource(answer["UUID"], {"Id": answer["UUID"]})


def _update_mapping(clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource) -> CreatedResource:
    clients.call("lambda", "update_event_source_mapping", UUID=existing.physical_id, **declared.pick(*MAPPING))
    return existing.made


TYPES = (
    ResourceType(
        name="AWS::Lambda::Function",
        honoured="Architectures Code.S3Bucket Code.S3Key Code.ZipFile Description Environment.Variables "
        "EphemeralStorage.Size FunctionName"
        " Handler Layers LoggingConfig.LogGroup LoggingConfig.LogFormat LoggingConfig.ApplicationLogLevel "
        "LoggingConfig.SystemLogLevel"
        " MemorySize PackageType ReservedConcurrentExecutions Role Runtime Tags Timeout VpcConfig.SubnetIds "
        "VpcConfig.SecurityGroupIds",
        ignored={
            "TracingConfig": "there is no X-Ray; the mode is stored",
            "VpcConfig.Ipv6AllowedForDualStack": "sandboxes are processes of this machine",
            "Code.S3ObjectVersion": "the asset bucket has no versions",
            "RecursiveLoop": "no loop detection here",
        },
        attributes="Arn",
        immutable="FunctionName PackageType",
        named_by="FunctionName",
        create=_create_function,
        configure=_configure_function,
        update=_update_function,
        delete=calling("lambda", "delete_function", "FunctionName"),
    ),
    ResourceType(
        name="AWS::Lambda::LayerVersion",
        honoured="CompatibleArchitectures CompatibleRuntimes Content.S3Bucket Content.S3Key Description LayerName "
        "LicenseInfo",
        attributes="LayerVersionArn",
        create=_create_layer,
        delete=_delete_layer,
    ),
    ResourceType(
        name="AWS::Lambda::Permission",
        honoured="Action EventSourceToken FunctionName Principal PrincipalOrgID SourceAccount SourceArn",
        attributes="Id",
        create=_create_permission,
        delete=_delete_permission,
    ),
    ResourceType(
        name="AWS::Lambda::Version",
        honoured="Description FunctionName",
        ignored={"CodeSha256": "a function's code changes only by this stack"},
        attributes="Version FunctionArn",
        create=_create_version,
        delete=_delete_version,
    ),
    ResourceType(
        name="AWS::Lambda::Alias",
        honoured="Description FunctionName FunctionVersion Name RoutingConfig",
        attributes="AliasArn",
        immutable="FunctionName Name",
        create=_create_alias,
        update=_update_alias,
        delete=_delete_alias,
    ),
    ResourceType(
        name="AWS::Lambda::EventInvokeConfig",
        honoured="DestinationConfig FunctionName MaximumEventAgeInSeconds MaximumRetryAttempts Qualifier",
        immutable="FunctionName Qualifier",
        create=lambda _clients, _declared: CreatedResource(str(uuid.uuid4())),
        configure=_put_invoke_config,
        delete=_delete_invoke_config,
    ),
    ResourceType(
        name="AWS::Lambda::EventSourceMapping",
        honoured="BatchSize Enabled EventSourceArn FunctionName FunctionResponseTypes MaximumBatchingWindowInSeconds"
        " ScalingConfig.MaximumConcurrency",
        ignored={"Tags": "no call reads a mapping's tags"},
        attributes="Id",
        immutable="EventSourceArn",
        create=_create_mapping,
        update=_update_mapping,
        delete=calling("lambda", "delete_event_source_mapping", "UUID"),
    ),
)
