"""HTTP APIs (API Gateway v2): moto stores them, and one HTTPS server on this machine answers for them.

Each API answers at `https://127.0.0.1:PORT/_apis/ID/...`, the first one also at `/`. AWS addresses of an API in the
values of a template are replaced by this address. A certificate authority of our own signs the server's certificate:
`DATA/tls/ca.pem`, also SSM parameter `/joiner-local/tls/ca.pem`. Only Lambda proxies with payload format 2.0 and
without authorizers are supported; the function's resource policy must allow API Gateway, as on AWS.

Knob `door`: `{}` answers the URL and the number of responses by status. `{"fault": {"delay": 3, "status": 200, "body":
"x"}}` or `{"fault": {"hangUp": true}}` makes every response fail that way; `{"fault": null}` ends it.
"""

import datetime as dt
import json
import logging
import re
import threading
import urllib.parse
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from joiner_local.aws.api_gateway.http_api_routes import (
    INTERNAL_ERROR,
    HttpRequest,
    HttpResponse,
    RouteMatch,
    TokenBucket,
    best_route,
    proxy_answer,
    proxy_event,
    throttle,
)
from joiner_local.aws.api_gateway.https_server import HttpsServer, ServerFault
from joiner_local.aws.api_gateway.tls_certificates import Certificates
from joiner_local.aws.attribute_patches import replace_attribute
from joiner_local.aws.aws_lambda.function_invocations import FunctionInvoker, FunctionNotFound
from joiner_local.aws.aws_lambda.sandbox_pool import InvocationThrottled
from joiner_local.aws.aws_lambda.sandboxes import InvocationResult
from joiner_local.aws.cloudwatch.log_shipping import LogShipper
from joiner_local.aws.iam.resource_policies import PolicyRequest, allows
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from joiner_local.knob_requests import read_flag, read_number, read_object

log = logging.getLogger(__name__)

CA_PARAMETER = "/joiner-local/tls/ca.pem"
PREFIX = re.compile(r"/_apis/([a-z0-9]+)(/.*|$)")
AWS_ADDRESS = re.compile(r"https://([a-z0-9]+)\.execute-api\.[a-z0-9-]+\.amazonaws\.com")
CONTEXT_VARIABLE = re.compile(r"\$context\.([A-Za-z.]+)")
DEFAULT_TIMEOUT_MS = 30000


def install(aws: LocalAws, functions: FunctionInvoker, logs: LogShipper) -> Callable[[str], str]:
    """Serve the HTTP APIs. Returns a function that replaces AWS addresses of the APIs in a text by local ones."""
    apis = HttpApis(functions, logs)
    door = HttpsServer(Certificates.in_folder(aws.data / "tls"), apis.handle)
    aws.closing.append(door.close)
    _publish_ca(door.certificates)
    _add_update_stage()

    def local_address(text: str) -> str:
        return AWS_ADDRESS.sub(lambda found: f"{door.url}/_apis/{found[1]}" if found[1] in _apis() else found[0], text)

    def knob(asked: dict[str, Any]) -> dict[str, Any]:
        if "fault" in asked:
            door.fault = _fault(read_object(asked, "fault")) if asked["fault"] is not None else None
        apis_by_name = {api.name: f"{door.url}/_apis/{api_id}" for api_id, api in _apis().items()}
        return {"url": door.url, "ca": str(door.certificates.ca), "answers": dict(door.answers), "apis": apis_by_name}

    aws.add_knobs({"door": knob})
    return local_address


def _fault(asked: Mapping[str, Any]) -> ServerFault:
    unknown = set(asked) - {"delay", "status", "body", "hangUp"}
    if unknown:
        raise ValueError(f"door: a fault has delay, status, body, hangUp; not {', '.join(sorted(unknown))}")
    return ServerFault(
        read_number(asked, "delay", 0),
        asked.get("status"),
        str(asked.get("body", "")),
        read_flag(asked, "hangUp", default=False),
    )


def _publish_ca(certificates: Certificates) -> None:
    from moto.ssm.models import ssm_backends

    ssm_backends[ACCOUNT][REGION].put_parameter(
        name=CA_PARAMETER,
        description="CA of the local HTTPS door",
        value=certificates.ca.read_text(),
        parameter_type="String",
        allowed_pattern=None,
        keyid=None,
        overwrite=True,
        tags=[],
        data_type="text",
        tier=None,
        policies=None,
    )


def _add_update_stage() -> None:
    """Add UpdateStage, which CloudFormation needs and moto lacks."""
    from moto.apigatewayv2.responses import ApiGatewayV2Response

    def update_stage(response: Any) -> tuple[int, dict[str, str], str]:
        api_id, name = response.path.split("/")[-3], urllib.parse.unquote(response.path.rsplit("/", 1)[-1])
        stage = response.apigatewayv2_backend.get_stage(api_id, name)
        changes = json.loads(response.body)
        for key, attribute in STAGE_ATTRIBUTES.items():
            if key in changes:
                setattr(stage, attribute, changes[key])
        return 200, {}, json.dumps(stage.to_json())

    replace_attribute(ApiGatewayV2Response, "update_stage", update_stage)


STAGE_ATTRIBUTES = {
    "accessLogSettings": "access_log_settings",
    "autoDeploy": "auto_deploy",
    "defaultRouteSettings": "default_route_settings",
    "description": "description",
    "routeSettings": "route_settings",
    "stageVariables": "stage_variables",
}


def _apis() -> dict[str, Any]:
    from moto.apigatewayv2.models import apigatewayv2_backends

    return {
        api_id: api
        for api_id, api in list(apigatewayv2_backends[ACCOUNT][REGION].apis.items())
        if api.protocol_type == "HTTP"
    }


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request with its route, and moto's stage and integration for it."""

    asked: HttpRequest
    chosen: RouteMatch
    stage: Any
    integration: Any
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    at: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))


@dataclass(slots=True)
class HttpApis:
    """Answer requests according to the APIs in moto's store."""

    functions: FunctionInvoker
    logs: LogShipper
    _buckets: dict[tuple[Any, ...], TokenBucket] = field(default_factory=dict)

    def handle(self, asked: HttpRequest) -> HttpResponse:
        api, asked = _addressed(replace(asked, path=urllib.parse.unquote(asked.path) or "/"))
        if api is None:
            return HttpResponse.message(404, "Not Found")
        for stage, path in _stages(api, asked.path):
            routes = {route.route_key: route for route in list(api.routes.values())}
            found = best_route(routes, asked.method, path)
            if found is not None:
                key, parameters = found
                chosen = RouteMatch(api.api_id, stage.name, stage.stage_variables or {}, key, parameters)
                visit = ApiRequest(
                    asked, chosen, stage, api.integrations.get(str(routes[key].target or "").rpartition("/")[2])
                )
                answered = self._serve(visit)
                self._log_access(visit, answered)
                return answered
        return HttpResponse.message(404, "Not Found")

    def _serve(self, visit: ApiRequest) -> HttpResponse:
        chosen, stage = visit.chosen, visit.stage
        rate, burst = throttle(stage.route_settings or {}, stage.default_route_settings or {}, chosen.route_key)
        place = (chosen.api_id, stage.name, chosen.route_key, rate, burst)
        if not self._buckets.setdefault(place, TokenBucket(rate, burst)).take():
            return HttpResponse.message(429, "Too Many Requests")
        if visit.integration is None:
            return INTERNAL_ERROR
        function = _function_arn(visit.integration.integration_uri)
        try:
            statements = self.functions.find(function).policy.statements
        except FunctionNotFound as missing:
            log.error("%s: %s", chosen.source_arn, missing)
            return INTERNAL_ERROR
        if not allows(
            statements, PolicyRequest("apigateway.amazonaws.com", "lambda:InvokeFunction", chosen.source_arn)
        ):
            log.error("no permission lets %s invoke %s", chosen.source_arn, function)
            return INTERNAL_ERROR
        event = proxy_event(visit.asked, chosen, visit.request_id, visit.at)
        seconds = float(visit.integration.timeout_in_millis or DEFAULT_TIMEOUT_MS) / 1000
        result = _within(seconds, self.functions, function, json.dumps(event).encode())
        if result is None:
            return HttpResponse.message(503, "Service Unavailable")
        return proxy_answer(result.payload) if result.error is None else INTERNAL_ERROR

    def _log_access(self, visit: ApiRequest, answered: HttpResponse) -> None:
        settings, asked, chosen = visit.stage.access_log_settings or {}, visit.asked, visit.chosen
        if not settings.get("destinationArn"):
            return
        values = {
            "requestId": visit.request_id,
            "apiId": chosen.api_id,
            "stage": chosen.stage,
            "routeKey": chosen.route_key,
            "httpMethod": asked.method,
            "path": asked.path,
            "protocol": asked.protocol,
            "status": str(answered.status),
            "responseLength": str(len(answered.body)),
            "requestTime": visit.at.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "identity.sourceIp": "127.0.0.1",
            "identity.userAgent": asked.headers.get("user-agent", "-"),
        }
        line = CONTEXT_VARIABLE.sub(
            lambda found: values.get(found[1], "-"), settings.get("format") or "$context.requestId"
        )
        group = settings["destinationArn"].split(":log-group:")[1].split(":")[0]
        self.logs.ship(group, chosen.stage, line)


def _addressed(asked: HttpRequest) -> tuple[Any, HttpRequest]:
    """Return the API of a request, selected by prefix, by host name, or because it is the first, and the request as
    that API receives it.
    """
    apis = _apis()
    found = PREFIX.match(asked.path)
    if found is not None:
        return apis.get(found[1]), replace(asked, path=found[2] or "/")
    host = asked.headers.get("host", "").split(".")[0]
    return apis.get(host, next(iter(apis.values()), None)), asked


def _stages(api: Any, path: str) -> list[tuple[Any, str]]:
    """Return the stages that may serve a path, each with the path that its routes match: the stage named by the first
    part, and `$default`.
    """
    first = path.split("/")[1] if "/" in path else ""
    named, default = api.stages.get(first), api.stages.get("$default")
    found = [(named, path[len(first) + 1 :] or "/")] if named is not None else []
    return found + ([(default, path)] if default is not None else [])


def _function_arn(uri: str) -> str:
    """
    >>> path = "path/2015-03-31/functions/arn:aws:lambda:us-east-1:1:function:ring/invocations"
    >>> _function_arn(f"arn:aws:apigateway:us-east-1:lambda:{path}")
    'arn:aws:lambda:us-east-1:1:function:ring'
    """
    return uri.rpartition("/functions/")[2].removesuffix("/invocations")


def _within(seconds: float, functions: FunctionInvoker, function: str, payload: bytes) -> InvocationResult | None:
    """Invoke the function; None if it takes longer or is throttled. A function that is too late continues, as on
    AWS.
    """
    done: list[InvocationResult] = []

    def invoke() -> None:
        try:
            done.append(functions.invoke(function, None, payload))
        except InvocationThrottled:
            log.warning("%s is throttled", function)
        except Exception:
            log.exception("invoking %s", function)

    thread = threading.Thread(target=invoke, daemon=True, name="api-invocation")
    thread.start()
    thread.join(seconds)
    return done[0] if done else None
