"""The doorbell: an HTTP API that the cluster's API server calls through a validating webhook, which never denies a
request.

Pods, nodes and deletions have separate routes with separate throttles, so that many unschedulable pods do not delay the
registration of nodes. The routes share one function: rings of pods keep it warm for the nodes, which ring half a minute
later. Calls of pods are answered rather than refused, because the API server logs each refused call. The function's
reserved concurrency, if any, is larger than the bursts of pods and pools together. Slow rings may still use all of it;
then the sweep finds what was lost.

The path contains a token that each installation replaces, since EKS lets an API server send no other credential. So
nothing may log the path: the access log has the name of the route.
"""

import json
from typing import Final, cast

from aws_cdk import RemovalPolicy
from aws_cdk import aws_apigatewayv2 as http
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.lambda_function import FunctionDependencies, LambdaFunction, log_retention
from infra.settings import POOLS_THROTTLE, DoorbellSettings

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
"""One line for each request, without the path, which contains the token.

Source: https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-logging-variables.html
"""


class DoorbellApi(Construct):
    """The API, its routes with their throttles, and the function behind them."""

    def __init__(
        self, scope: Construct, id: str, *, dependencies: FunctionDependencies, scale_up_arn: str, sweep_arn: str
    ) -> None:
        super().__init__(scope, id)
        settings = dependencies.settings
        self.function = LambdaFunction(
            self,
            "RingDoorbell",
            name="ring_doorbell",
            dependencies=dependencies,
            environment={"SCALE_UP_ARN": scale_up_arn, "SWEEP_ARN": sweep_arn},
            reserved_concurrency=settings.doorbell.concurrency,
        )
        self.api = http.HttpApi(
            self, "Api", create_default_stage=False, description="Called by the API server of the cluster"
        )
        routes = self._add_routes()
        stage = http.HttpStage(self, "Stage", http_api=self.api, stage_name="$default", auto_deploy=True)
        # Log groups with this prefix need no statement in CloudWatch Logs' resource policy, whose size is limited
        self.access_log = logs.LogGroup(
            self,
            "AccessLog",
            log_group_name=f"/aws/vendedlogs/http-apis/joiner-doorbell-{settings.cluster}",
            retention=log_retention(settings.logs.retention_days),
            removal_policy=RemovalPolicy.DESTROY,
        )
        resource = cast(http.CfnStage, stage.node.default_child)  # the L2 construct has one throttle for all routes
        resource.access_log_settings = http.CfnStage.AccessLogSettingsProperty(
            destination_arn=self.access_log.log_group_arn, format=json.dumps(ACCESS_LOG_FORMAT)
        )
        resource.route_settings = _render_throttles(settings.doorbell)
        stage.node.add_dependency(*routes)  # API Gateway refuses settings of a route that does not exist

    def _add_routes(self) -> list[http.HttpRoute]:
        integration = integrations.HttpLambdaIntegration("Integration", self.function.function)
        return [
            route
            for kind in ROUTES
            for route in self.api.add_routes(
                path=f"/ring/{{token}}/{kind}", methods=[http.HttpMethod.POST], integration=integration
            )
        ]

    @property
    def url(self) -> str:
        """The URL without the token and the route."""
        return f"{self.api.api_endpoint}/ring"


def _render_throttles(settings: DoorbellSettings) -> dict[str, dict[str, int]]:
    throttles = {
        "pods": settings.pods_throttle,
        "nodes": settings.nodes,
        "pools": POOLS_THROTTLE,
        "deletions": settings.nodes,
    }
    return {
        f"POST /ring/{{token}}/{kind}": {"ThrottlingRateLimit": each.rate, "ThrottlingBurstLimit": each.burst}
        for kind, each in throttles.items()
    }
