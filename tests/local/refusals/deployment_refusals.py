"""CloudFormation and the HTTP API: sizes of templates, custom resources, routes."""

import json
from typing import Any, Final

from tests.local.refusals.refused_calls import Refused, not_modelled, nothing_known, refuses
from tests.local.running_aws import RunningAws
from tests.local.stack_under_test import StackUnderTest, parameter

CLOUDFORMATION: Final = "cloudformation"
APIS: Final = "apigatewayv2"
QUOTAS: Final = "CloudFormation user guide, CloudFormation quotas"
HTTP_QUOTAS: Final = "API Gateway developer guide, Quotas for HTTP APIs"


def create(aws: RunningAws, resources: dict[str, Any], **sections: Any) -> StackUnderTest:
    """Create a stack; raise the reason for which a resource could not be created."""
    stack = StackUnderTest(aws)
    stack.create(resources, **sections)
    if stack.status != "CREATE_COMPLETE":
        logical, reason = next(iter(stack.failures.items()))
        raise Refused(stack.status, f"{logical}: {reason}")
    return stack


@refuses(
    CLOUDFORMATION,
    "CreateStack",
    "a template above 51,200 bytes in the request",
    code="ValidationError",
    message="51200",
    source=QUOTAS,
)
def a_large_template(aws: RunningAws) -> None:
    body = json.dumps({"Resources": {"P": parameter("x" * 51_200)}})
    aws.client(CLOUDFORMATION).create_stack(StackName=aws.fresh("stack"), TemplateBody=body)


@refuses(
    CLOUDFORMATION,
    "CreateStack",
    "a template above 1 MB in S3",
    code="ValidationError",
    message="1000000",
    source=QUOTAS,
)
def a_large_template_in_s3(aws: RunningAws) -> None:
    bucket = aws.fresh("templates")
    aws.client("s3").create_bucket(Bucket=bucket)
    body = json.dumps({"Description": "d", "Metadata": {"long": "x" * 1_048_576}, "Resources": {"P": parameter("a")}})
    aws.client("s3").put_object(Bucket=bucket, Key="t", Body=body.encode())
    aws.client(CLOUDFORMATION).create_stack(StackName=aws.fresh("stack"), TemplateURL=f"{aws.endpoint}/{bucket}/t")


@refuses(
    CLOUDFORMATION,
    "CreateStack",
    "501 resources",
    code="ValidationError",
    message="greater than maximum allowed, 500",
    source=QUOTAS,
)
def many_resources(aws: RunningAws) -> None:
    StackUnderTest(aws).create({f"P{number}": parameter("a") for number in range(501)})


@refuses(
    CLOUDFORMATION,
    "CreateStack",
    "201 parameters",
    code="ValidationError",
    message="greater than maximum allowed, 200",
    source=QUOTAS,
)
def many_parameters(aws: RunningAws) -> None:
    wanted = {f"P{number}": {"Type": "String", "Default": "a"} for number in range(201)}
    StackUnderTest(aws).create({"P": parameter("a")}, Parameters=wanted)


@refuses(
    CLOUDFORMATION,
    "CreateStack",
    "201 outputs",
    code="ValidationError",
    message="greater than maximum allowed, 200",
    source=QUOTAS,
)
def many_outputs(aws: RunningAws) -> None:
    StackUnderTest(aws).create({"P": parameter("a")}, Outputs={f"O{number}": {"Value": "a"} for number in range(201)})


@refuses(
    CLOUDFORMATION,
    "CreateStack",
    "a description above 1,024 bytes",
    code="ValidationError",
    message="1024",
    source=QUOTAS,
)
def a_long_description(aws: RunningAws) -> None:
    StackUnderTest(aws).create({"P": parameter("a")}, Description="x" * 1025)


@refuses(
    CLOUDFORMATION,
    "CreateStack",
    "a name in use",
    code="AlreadyExistsException",
    source="CloudFormation API reference, CreateStack",
)
def a_stack_in_use(aws: RunningAws) -> None:
    stack = StackUnderTest(aws)
    for _ in range(2):
        stack.create({"P": parameter("a")})


ANSWER: Final = """
import json, urllib.request
def handler(event, context):
    echoed = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    data = {"long": "x" * int(event["ResourceProperties"]["Size"])} if event["RequestType"] == "Create" else {}
    body = json.dumps({**echoed, "Status": "SUCCESS", "PhysicalResourceId": "one", "Data": data}).encode()
    headers = {"content-type": ""}
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], method="PUT", data=body, headers=headers))
"""


@refuses(
    CLOUDFORMATION,
    "a custom resource",
    "an answer above 4,096 bytes",
    code="ROLLBACK_COMPLETE",
    message="Response object is too long.",
    source="CloudFormation user guide, Custom resource response objects",
)
def a_long_answer(aws: RunningAws) -> None:
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:{aws.function(ANSWER)}"
    create(aws, {"C": {"Type": "Custom::Long", "Properties": {"ServiceToken": arn, "Size": "4096"}}})


def api(aws: RunningAws, routes: list[str], settings: dict[str, Any]) -> None:
    """Create an HTTP API with these routes, and a stage with these route settings."""
    made: dict[str, Any] = {
        "Api": {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"Name": "ring", "ProtocolType": "HTTP"}},
        "Stage": {
            "Type": "AWS::ApiGatewayV2::Stage",
            "DependsOn": [f"Route{number}" for number in range(len(routes))],
            "Properties": {
                "ApiId": {"Ref": "Api"},
                "StageName": "$default",
                "AutoDeploy": True,
                "RouteSettings": settings,
            },
        },
    }
    for number, key in enumerate(routes):
        made[f"Route{number}"] = {
            "Type": "AWS::ApiGatewayV2::Route",
            "Properties": {"ApiId": {"Ref": "Api"}, "RouteKey": key},
        }
    create(aws, made)


@refuses(
    APIS,
    "CreateStage",
    "settings of a route that does not exist",
    code="ROLLBACK_COMPLETE",
    message="Unable to find Route by key",
    source="hashicorp/terraform-provider-aws#14742",
)
def settings_of_no_route(aws: RunningAws) -> None:
    api(aws, ["POST /ring"], {"POST /other": {"ThrottlingRateLimit": 1, "ThrottlingBurstLimit": 1}})


@refuses(
    APIS,
    "CreateRoute",
    "a route key in use",
    code="ROLLBACK_COMPLETE",
    message="already exists",
    source="API Gateway V2 API reference, CreateRoute",
)
def a_route_in_use(aws: RunningAws) -> None:
    api(aws, ["POST /ring", "POST /ring"], {})


not_modelled(
    APIS,
    "a request",
    "a body above 10 MB",
    code="413 Request Entity Too Large",
    source=HTTP_QUOTAS,
    why="the doorbell's caller is the API server, whose reviews have 3 MB at most",
)
not_modelled(
    APIS,
    "a request",
    "more requests than the account's 10,000 a second",
    code="429 Too Many Requests",
    source=HTTP_QUOTAS,
    why="the routes' own throttles, which are modelled, are far below",
)
nothing_known(
    APIS,
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Integration",
    why="an HTTP API with one Lambda integration of fixed fields",
)
nothing_known(
    APIS, "AWS::ApiGatewayV2::Route", "AWS::ApiGatewayV2::Stage", why="the refusals of API Gateway's API are listed"
)
not_modelled(
    "eks",
    "a webhook",
    "a webhook without caBundle, whose server has a certificate of a public CA",
    code="none: EKS's API server trusts public CAs, the local one trusts the CA of the webhook only",
    source="Kubernetes documentation, Dynamic admission control: caBundle defaults to the system's roots",
    why="the local door has a certificate of its own, so the local webhook has a caBundle and the deployed one has "
    "none",
)


@refuses(
    CLOUDFORMATION,
    "DescribeStacks",
    "a stack that does not exist",
    code="ValidationError",
    message="does not exist",
    source=QUOTAS,
)
def a_stack_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(CLOUDFORMATION).describe_stacks(StackName="nowhere")


@refuses(
    CLOUDFORMATION,
    "ListStackResources",
    "a stack that does not exist",
    code="ValidationError",
    message="does not exist",
    source=QUOTAS,
)
def resources_of_no_stack(aws: RunningAws) -> None:
    aws.client(CLOUDFORMATION).list_stack_resources(StackName="nowhere")


@refuses(
    CLOUDFORMATION,
    "DescribeStackResources",
    "a stack that does not exist",
    code="ValidationError",
    message="does not exist",
    source=QUOTAS,
)
def described_resources_of_no_stack(aws: RunningAws) -> None:
    aws.client(CLOUDFORMATION).describe_stack_resources(StackName="nowhere")
