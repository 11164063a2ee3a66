"""HTTP APIs through their HTTPS endpoint: routes, payloads, throttles, permissions, and failures."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

import pytest

from tests.local.running_aws import RunningAws, eventually
from tests.local.stack_under_test import StackUnderTest, att, ref

SLOW = 10  # seconds
ECHO = """
import json

def handler(event, context):
    path = event["rawPath"]
    if path.endswith("/bytes"):
        answer = {"statusCode": 201, "headers": {"X-A": 1}, "cookies": ["a=1", "b=2"]}
        return answer | {"body": "AP8=", "isBase64Encoded": True}
    if path.endswith("/plain"):
        return {"hello": "world"}
    if path.endswith("/raise"):
        raise RuntimeError("no")
    if path.endswith("/object"):
        return {"statusCode": 200, "body": {"not": "a string"}}
    return {"statusCode": 200, "headers": {"content-type": "application/json"}, "body": json.dumps(event)}
"""


@dataclass(frozen=True, slots=True)
class ReceivedResponse:
    status: int
    headers: Message
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Api:
    """An HTTP API in a stack of its own, called over TLS with the endpoint's CA."""

    aws: RunningAws
    stack: StackUnderTest
    trusted: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        ca = self.aws.client("ssm").get_parameter(Name="/joiner-local/tls/ca.pem")["Parameter"]["Value"]
        self.trusted = ssl.create_default_context(cadata=ca)

    @property
    def url(self) -> str:
        return self.stack.outputs["Url"].rstrip("/")

    def call(
        self, method: str, path: str, body: bytes | None = None, timeout: float = 10, **headers: str
    ) -> ReceivedResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"{self.url}{path}", body, named, method=method)  # noqa: S310 - the local AWS
        try:
            with urllib.request.urlopen(request, context=self.trusted, timeout=timeout) as answer:  # noqa: S310
                return ReceivedResponse(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return ReceivedResponse(error.code, error.headers, error.read())


def api_resources(
    function: str, routes: list[str], *, stage: dict[str, Any] | None = None, permitted: str = "${Api}/*"
) -> dict[str, dict[str, Any]]:
    """Return an API with these routes, all to one function; `permitted` is the route in its permission."""
    resources: dict[str, dict[str, Any]] = {
        "Api": {
            "Type": "AWS::ApiGatewayV2::Api",
            "Properties": {"Name": RunningAws.fresh("api"), "ProtocolType": "HTTP"},
        },
        "Integration": {
            "Type": "AWS::ApiGatewayV2::Integration",
            "Properties": {
                "ApiId": ref("Api"),
                "IntegrationType": "AWS_PROXY",
                "IntegrationUri": function,
                "PayloadFormatVersion": "2.0",
                "TimeoutInMillis": 3000,
            },
        },
        "Stage": {
            "Type": "AWS::ApiGatewayV2::Stage",
            # settings of a route that does not exist yet are refused
            "DependsOn": [f"Route{number}" for number in range(len(routes))],
            "Properties": {"ApiId": ref("Api"), "StageName": "$default", "AutoDeploy": True, **(stage or {})},
        },
        "Permission": {
            "Type": "AWS::Lambda::Permission",
            "Properties": {
                "FunctionName": function,
                "Action": "lambda:InvokeFunction",
                "Principal": "apigateway.amazonaws.com",
                "SourceArn": {"Fn::Sub": f"arn:aws:execute-api:us-east-1:123456789012:{permitted}"},
            },
        },
    }
    for number, key in enumerate(routes):
        target = {"Fn::Join": ["", ["integrations/", ref("Integration")]]}
        resources[f"Route{number}"] = {
            "Type": "AWS::ApiGatewayV2::Route",
            "Properties": {"ApiId": ref("Api"), "RouteKey": key, "Target": target},
        }
    return resources


URL = {
    "Url": {
        "Value": {"Fn::Join": ["", ["https://", ref("Api"), ".execute-api.", ref("AWS::Region"), ".amazonaws.com/"]]}
    }
}


def function_arn(aws: RunningAws, code: str) -> str:
    return str(aws.client("lambda").get_function(FunctionName=aws.function(code))["Configuration"]["FunctionArn"])


@pytest.fixture(scope="module")
def echo(local_aws: RunningAws) -> str:
    return function_arn(local_aws, ECHO)


@pytest.fixture(scope="module")
def api(local_aws: RunningAws, echo: str) -> Iterator[Api]:
    stack = StackUnderTest(local_aws)
    routes = ["POST /e/{id}", "ANY /p/{proxy+}", "GET /p/exact"]
    assert stack.create(api_resources(echo, routes), Outputs=URL) == "CREATE_COMPLETE"
    yield Api(local_aws, stack)
    assert stack.delete() == "DELETE_COMPLETE"


def test_a_function_gets_the_documented_event(api: Api) -> None:
    answer = api.call("POST", "/e/7?timeout=2s&x=1&x=2", b'{"a":1}', content_type="application/json", cookie="k=v; l=w")

    event, context = answer.json, answer.json["requestContext"]
    assert {
        name: event[name]
        for name in ("version", "routeKey", "rawPath", "rawQueryString", "pathParameters", "body", "cookies")
    } == {
        "version": "2.0",
        "routeKey": "POST /e/{id}",
        "rawPath": "/e/7",
        "rawQueryString": "timeout=2s&x=1&x=2",
        "pathParameters": {"id": "7"},
        "body": '{"a":1}',
        "cookies": ["k=v", "l=w"],
    }
    assert event["queryStringParameters"] == {"timeout": "2s", "x": "1,2"}
    assert event["isBase64Encoded"] is False
    assert (context["http"]["method"], context["http"]["path"], context["stage"]) == ("POST", "/e/7", "$default")
    assert event["headers"]["content-type"] == "application/json"


def test_a_body_that_is_no_text_comes_as_base64(api: Api) -> None:
    event = api.call("POST", "/e/7", b"\x00\x01", content_type="application/octet-stream").json

    assert (event["isBase64Encoded"], event["body"]) == (True, "AAE=")


def test_a_full_match_beats_a_greedy_one_and_what_matches_nothing_is_not_found(api: Api) -> None:
    assert api.call("PUT", "/p/a/b").json["pathParameters"] == {"proxy": "a/b"}
    assert api.call("GET", "/p/exact").json["routeKey"] == "GET /p/exact"
    assert (api.call("GET", "/nope").status, api.call("PUT", "/e/1").status) == (404, 404)


def test_status_headers_cookies_and_bytes_come_back(api: Api) -> None:
    answer = api.call("GET", "/p/bytes")

    assert (answer.status, answer.headers["x-a"], answer.headers.get_all("set-cookie"), answer.body) == (
        201,
        "1",
        ["a=1", "b=2"],
        b"\x00\xff",
    )


def test_an_answer_without_a_status_is_the_body_of_a_200(api: Api) -> None:
    answer = api.call("GET", "/p/plain")

    assert (answer.status, answer.headers["content-type"], answer.json) == (200, "application/json", {"hello": "world"})


def test_a_function_that_raises_or_answers_nonsense_is_an_internal_error(api: Api) -> None:
    assert [api.call("GET", f"/p/{case}").status for case in ("raise", "object")] == [500, 500]


def test_each_route_has_its_own_throttle(local_aws: RunningAws, echo: str) -> None:
    stack = StackUnderTest(local_aws)
    tight = {"ThrottlingRateLimit": 0.5, "ThrottlingBurstLimit": 3}
    stage = {
        "RouteSettings": {"POST /pods": tight},
        "DefaultRouteSettings": {"ThrottlingRateLimit": 1, "ThrottlingBurstLimit": 5},
    }
    stack.create(api_resources(echo, ["POST /pods", "POST /nodes"], stage=stage), Outputs=URL)
    throttled = Api(local_aws, stack)

    pods = [throttled.call("POST", "/pods", b"{}").status for _ in range(6)]
    nodes = [throttled.call("POST", "/nodes", b"{}").status for _ in range(7)]
    assert (pods[:3], pods[-1]) == ([200] * 3, 429)
    assert (nodes[:5], nodes[-1]) == ([200] * 5, 429)
    stack.delete()


def test_a_function_that_does_not_let_the_api_in_is_not_called(local_aws: RunningAws, echo: str) -> None:
    stack = StackUnderTest(local_aws)
    stack.create(api_resources(echo, ["POST /pods"], permitted="${Api}/*/POST/nodes"), Outputs=URL)

    assert Api(local_aws, stack).call("POST", "/pods", b"{}").status == 500
    stack.delete()


def test_a_stage_writes_its_access_log_in_its_format(local_aws: RunningAws, echo: str) -> None:
    stack = StackUnderTest(local_aws)
    log = {"DestinationArn": att("Logs", "Arn"), "Format": '{"status":"$context.status","route":"$context.routeKey"}'}
    resources = api_resources(echo, ["POST /pods"], stage={"AccessLogSettings": log}) | {
        "Logs": {"Type": "AWS::Logs::LogGroup"}
    }
    stack.create(resources, Outputs=URL)
    Api(local_aws, stack).call("POST", "/pods", b"{}")

    logs = local_aws.client("logs")
    [line] = eventually(lambda: logs.filter_log_events(logGroupName=stack.physical_id("Logs"))["events"])
    assert json.loads(line["message"]) == {"status": "200", "route": "POST /pods"}
    stack.delete()


def test_a_function_that_takes_too_long_is_unavailable(local_aws: RunningAws) -> None:
    stack = StackUnderTest(local_aws)
    slow = function_arn(local_aws, f"import time\ndef handler(event, context): time.sleep({SLOW})")
    resources = api_resources(slow, ["POST /pods"])
    resources["Integration"]["Properties"]["TimeoutInMillis"] = 500
    stack.create(resources, Outputs=URL)

    begun = time.monotonic()
    assert Api(local_aws, stack).call("POST", "/pods", b"{}").status == 503
    assert time.monotonic() - begun < SLOW
    stack.delete()


@pytest.mark.parametrize(
    ("resource", "changes", "complaint"),
    [
        ("Integration", {"PayloadFormatVersion": "1.0"}, "payload 2.0 only"),
        ("Integration", {"IntegrationType": "HTTP_PROXY"}, "AWS_PROXY integrations"),
        ("Route0", {"AuthorizationType": "JWT"}, "enforces no authorizer"),
        ("Api", {"ProtocolType": "WEBSOCKET"}, "HTTP APIs only"),
    ],
)
def test_what_the_door_cannot_do_fails_the_deployment(
    local_aws: RunningAws, echo: str, resource: str, changes: dict[str, str], complaint: str
) -> None:
    stack, resources = StackUnderTest(local_aws), api_resources(echo, ["POST /pods"])
    resources[resource]["Properties"] |= changes

    assert stack.create(resources) == "ROLLBACK_COMPLETE"
    assert complaint in stack.reason(resource)


def test_a_knob_injects_faults_into_the_doorbells_api(api: Api) -> None:
    try:
        api.aws.knob("door", fault={"status": 200, "body": "rubbish"})
        assert api.call("GET", "/p/plain").body == b"rubbish"
        api.aws.knob("door", fault={"delay": 0.3})
        begun = time.monotonic()
        assert api.call("GET", "/p/plain").status == 200
        assert time.monotonic() - begun >= 0.3
        api.aws.knob("door", fault={"hangUp": True})
        with pytest.raises(OSError, match=r"closed connection|EOF|reset"):
            api.call("GET", "/p/plain")
    finally:
        report = api.aws.knob("door", fault=None)
    assert api.call("GET", "/p/plain").json == {"hello": "world"}
    assert report["answers"]["hung up"] == 1


def test_the_door_is_trusted_only_with_its_own_ca(api: Api) -> None:
    api.trusted = ssl.create_default_context()
    try:
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            api.call("GET", "/p/plain")
    finally:
        api.__post_init__()
