"""The doorbell: the HTTP API that the cluster's API server rings, through a validating webhook that never refuses anything.

Pods, nodes and deletions have routes and throttles of their own: a flood of unschedulable pods must not keep a node's registration waiting.
They share one function, because the pods' rings keep it warm for the nodes that come half a minute later; what is set aside for it is more
than the bursts of pods and pools together. Rings that take long may still fill it, and what is lost then is the sweep's.
The path holds a token that each installation replaces (EKS lets an API server send no other credential), so nothing writes the path
down: the access log names the route.
"""

import json
from typing import Final, cast

from aws_cdk import RemovalPolicy
from aws_cdk import aws_apigatewayv2 as http
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.lambda_function import FunctionDependencies, LambdaFunction, log_retention
from infra.settings import RouteThrottle

ROUTES: Final = ("pods", "nodes", "pools", "deletions")

ACCESS_LOG_FORMAT: Final = {
    "requestId": "$context.requestId",
    "time": "$context.requestTime",
    "route": "$context.routeKey",
    "status": "$context.status",
    "milliseconds": "$context.responseLatency",
    "error": "$context.integrationErrorMessage",
    "sourceIp": "$context.identity.sourceIp",
    "userAgent": "$context.identity.userAgent",
}
"""One line a request. No path: it holds the token.
https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-logging-variables.html"""


class DoorbellApi(Construct):
    """The API, its routes with their throttles, and the function behind them."""

    def __init__(
        self, scope: Construct, id: str, *, dependencies: FunctionDependencies, scale_up_arn: str, sweep_arn: str
    ) -> None:
        super().__init__(scope, id)
        settings = dependencies.settings.doorbell
        self.function = LambdaFunction(
            self,
            "RingDoorbell",
            name="ring_doorbell",
            dependencies=dependencies,
            environment={"SCALE_UP_ARN": scale_up_arn, "SWEEP_ARN": sweep_arn},
            reserved_concurrency=settings.concurrency,
        )
        self.api = http.HttpApi(
            self, "Api", create_default_stage=False, description="Rung by the API server of the cluster"
        )
        integration = integrations.HttpLambdaIntegration("Integration", self.function.function)
        routes = [
            route
            for kind in ROUTES
            for route in self.api.add_routes(
                path=f"/ring/{{token}}/{kind}", methods=[http.HttpMethod.POST], integration=integration
            )
        ]
        stage = http.HttpStage(self, "Stage", http_api=self.api, stage_name="$default", auto_deploy=True)
        # Groups of this prefix need no line of their own in CloudWatch Logs' resource policy, which has room for few
        self.access_log = logs.LogGroup(
            self,
            "AccessLog",
            log_group_name=f"/aws/vendedlogs/http-apis/joiner-doorbell-{dependencies.settings.cluster}",
            retention=log_retention(dependencies.settings.logs.retention_days),
            removal_policy=RemovalPolicy.DESTROY,
        )
        resource = cast(http.CfnStage, stage.node.default_child)  # the L2 knows one throttle for all routes
        resource.access_log_settings = http.CfnStage.AccessLogSettingsProperty(
            destination_arn=self.access_log.log_group_arn, format=json.dumps(ACCESS_LOG_FORMAT)
        )
        throttles = {
            "pods": settings.pods,
            "nodes": settings.nodes,
            "pools": settings.pods,
            "deletions": settings.nodes,
        }
        resource.route_settings = {
            f"POST /ring/{{token}}/{kind}": _render_throttle(throttle) for kind, throttle in throttles.items()
        }
        stage.node.add_dependency(*routes)  # settings of a route that is not there yet are refused

    @property
    def url(self) -> str:
        """Without the token, and without what follows it."""
        return f"{self.api.api_endpoint}/ring"


def _render_throttle(throttle: RouteThrottle) -> dict[str, int]:
    return {"ThrottlingRateLimit": throttle.rate, "ThrottlingBurstLimit": throttle.burst}
