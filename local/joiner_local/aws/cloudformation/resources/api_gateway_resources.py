"""API Gateway's HTTP APIs, as far as they are served here: Lambda proxies with payload format 2.0, without
authorizers.
"""

from typing import Any

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    ResourceType,
    ServiceClients,
    calling,
)
from joiner_local.aws.local_aws import REGION

SERVICE = "apigatewayv2"


def _create_api(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    properties = declared.properties
    if properties.get("ProtocolType", "HTTP") != "HTTP":
        raise ValueError(f"the local AWS has HTTP APIs only, not {properties['ProtocolType']}")
    answer = clients.call(
        SERVICE,
        "create_api",
        Name=declared.name("Name", limit=128),
        ProtocolType="HTTP",
        Tags=declared.tags or None,
        **declared.pick("Description", "Version"),
    )
    return CreatedResource(
        answer["ApiId"],
        {"ApiId": answer["ApiId"], "ApiEndpoint": f"https://{answer['ApiId']}.execute-api.{REGION}.amazonaws.com"},
    )


def _update_api(clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource) -> CreatedResource:
    clients.call(SERVICE, "update_api", ApiId=existing.physical_id, **declared.pick("Name", "Description", "Version"))
    return existing.made


INTEGRATION = (
    "Description",
    "IntegrationMethod",
    "IntegrationType",
    "IntegrationUri",
    "PayloadFormatVersion",
    "TimeoutInMillis",
)


def _check_integration(declared: DeclaredResource) -> None:
    properties = declared.properties
    wanted = (properties.get("IntegrationType"), str(properties.get("PayloadFormatVersion")))
    if wanted != ("AWS_PROXY", "2.0") or ":lambda:" not in properties.get("IntegrationUri", ""):
        raise ValueError(
            "the local AWS has AWS_PROXY integrations of Lambda functions with payload 2.0 only, not "
            f"{dict(properties)}"
        )


def _create_integration(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    _check_integration(declared)
    answer = clients.call(
        SERVICE, "create_integration", ApiId=declared.properties["ApiId"], **declared.pick(*INTEGRATION)
    )
    return CreatedResource(answer["IntegrationId"], {"IntegrationId": answer["IntegrationId"]})


def _update_integration(
    clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource
) -> CreatedResource:
    _check_integration(declared)
    api = declared.properties["ApiId"]
    clients.call(
        SERVICE, "update_integration", ApiId=api, IntegrationId=existing.physical_id, **declared.pick(*INTEGRATION)
    )
    return existing.made


def _create_route(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    if declared.properties.get("AuthorizationType", "NONE") != "NONE":
        raise ValueError(
            f"the local AWS enforces no authorizer: AuthorizationType {declared.properties['AuthorizationType']}"
        )
    answer = clients.call(SERVICE, "create_route", **declared.pick("ApiId", "OperationName", "RouteKey", "Target"))
    return CreatedResource(answer["RouteId"], {"RouteId": answer["RouteId"]})


def _stage(declared: DeclaredResource) -> dict[str, Any]:
    return declared.pick(
        "AccessLogSettings", "AutoDeploy", "DefaultRouteSettings", "Description", "RouteSettings", "StageVariables"
    )


def _create_stage(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    place = declared.pick("ApiId", "StageName")
    clients.call(SERVICE, "create_stage", **place, **_stage(declared), Tags=declared.tags or None)
    return CreatedResource(declared.properties["StageName"])


def _update_stage(clients: ServiceClients, existing: ExistingResource, declared: DeclaredResource) -> CreatedResource:
    # a property that the template no longer sets is reset
    emptied: dict[str, Any] = {"DefaultRouteSettings": {}, "RouteSettings": {}, "StageVariables": {}}
    clients.call(SERVICE, "update_stage", **declared.pick("ApiId", "StageName"), **(emptied | _stage(declared)))
    return existing.made


def _delete_part(operation: str, parameter: str) -> Any:
    def delete(clients: ServiceClients, existing: ExistingResource) -> None:
        clients.call(SERVICE, operation, ApiId=existing.properties["ApiId"], **{parameter: existing.physical_id})

    return delete


ROUTE_SETTINGS = "ThrottlingBurstLimit ThrottlingRateLimit"

TYPES = (
    ResourceType(
        name="AWS::ApiGatewayV2::Api",
        honoured="Description Name ProtocolType Tags Version",
        ignored={"DisableExecuteApiEndpoint": "the door is the only endpoint there is"},
        attributes="ApiId ApiEndpoint",
        immutable="ProtocolType",
        create=_create_api,
        update=_update_api,
        delete=calling(SERVICE, "delete_api", "ApiId"),
    ),
    ResourceType(
        name="AWS::ApiGatewayV2::Integration",
        honoured=" ".join((*INTEGRATION, "ApiId")),
        attributes="IntegrationId",
        immutable="ApiId",
        create=_create_integration,
        update=_update_integration,
        delete=_delete_part("delete_integration", "IntegrationId"),
    ),
    ResourceType(
        name="AWS::ApiGatewayV2::Route",
        honoured="ApiId AuthorizationType OperationName RouteKey Target",
        attributes="RouteId",
        create=_create_route,
        delete=_delete_part("delete_route", "RouteId"),
    ),
    ResourceType(
        name="AWS::ApiGatewayV2::Stage",
        honoured="AccessLogSettings.DestinationArn AccessLogSettings.Format ApiId AutoDeploy Description "
        "RouteSettings StageName"
        " StageVariables Tags " + " ".join(f"DefaultRouteSettings.{name}" for name in ROUTE_SETTINGS.split()),
        ignored={
            "DefaultRouteSettings.DetailedMetricsEnabled": "the door counts for its knob only",
            "DeploymentId": "routes are served as soon as they exist",
        },
        immutable="ApiId StageName",
        create=_create_stage,
        update=_update_stage,
        delete=_delete_part("delete_stage", "StageName"),
    ),
    ResourceType(
        name="AWS::ApiGatewayV2::Deployment",
        honoured="",
        ignored=dict.fromkeys(("ApiId", "Description", "StageName"), "routes are served as soon as they exist"),
        attributes="DeploymentId",
        create=lambda _clients, declared: CreatedResource(
            declared.logical_id.lower(), {"DeploymentId": declared.logical_id.lower()}
        ),
        delete=lambda _clients, _existing: None,
    ),
)
