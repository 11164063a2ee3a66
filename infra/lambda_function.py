"""One Lambda function: its code, its role, its log group and its published version. No two functions share any of
them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from aws_cdk import ArnFormat, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.asset_bundles import PACKAGE, ROOT, BundleTarget, bundle_function, bundle_requirements, bundle_sources
from infra.calls_by_services import NETWORK_INTERFACE_ACTIONS, VPC_ACTIONS
from infra.function_configuration import CONFIGURATIONS, CalledApi, FunctionConfiguration
from infra.settings import RETENTION_DAYS, Settings
from infra.storage import Storage


class LambdaLayers(Construct):
    """The layers: Joiner's library, packages that every function has, and packages for some functions (the
    Kubernetes client, the numerical libraries of the planner)."""

    def __init__(self, scope: Construct, id: str, *, target: BundleTarget) -> None:
        super().__init__(scope, id)
        self._target = target
        library = bundle_sources("joiner", {"python": ROOT / "layers/joiner/python"}, target)
        self.joiner = self._layer("Joiner", library, "Joiner's own library")
        self.runtime = self._layer(
            "Runtime", bundle_requirements(ROOT / "layers/runtime", target), "Powertools, msgspec and PyYAML"
        )
        self.kubernetes = self._layer(
            "Kubernetes", bundle_requirements(ROOT / "layers/kubernetes", target), "The Kubernetes client"
        )
        self.planning = self._layer(
            "Planning", bundle_requirements(ROOT / "layers/planning", target), "numpy and HiGHS"
        )

    def of(self, configuration: FunctionConfiguration) -> list[lambda_.ILayerVersion]:
        """Return the layers of a function; files of a later layer replace those of an earlier one."""
        kubernetes = [self.kubernetes] if configuration.calls is CalledApi.KUBERNETES else []
        planning = [self.planning] if configuration.needs_planner else []
        return [self.joiner, self.runtime, *kubernetes, *planning]

    def _layer(self, id: str, bundle: Path, description: str) -> lambda_.LayerVersion:
        return lambda_.LayerVersion(
            self,
            id,
            code=lambda_.Code.from_asset(str(bundle)),
            compatible_runtimes=[lambda_runtime(self._target)],
            compatible_architectures=[lambda_architecture(self._target)],
            description=description,
        )


@dataclass(frozen=True, slots=True)
class FunctionDependencies:
    """What every function depends on."""

    settings: Settings
    target: BundleTarget
    layers: LambdaLayers
    storage: Storage


class LambdaFunction(Construct):
    """The function of one folder under `functions/`, with its entry of `CONFIGURATIONS`."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        dependencies: FunctionDependencies,
        environment: Mapping[str, str] | None = None,
        files: Mapping[str, Path] | None = None,
        reserved_concurrency: int | None = None,
        role_name: str | None = None,
    ) -> None:
        """`role_name` is for a role that people name; CloudFormation names the others."""
        super().__init__(scope, id)
        self.name = name
        self.configuration: FunctionConfiguration = CONFIGURATIONS[name]
        settings = dependencies.settings
        self.log_group = self._log_group(settings)
        self.role = self._role(settings, role_name)
        self.function = lambda_.Function(
            self,
            "Function",
            description=self.configuration.description,
            runtime=lambda_runtime(dependencies.target),
            architecture=lambda_architecture(dependencies.target),
            code=lambda_.Code.from_asset(str(bundle_function(name, files or {}, dependencies.target))),
            handler=f"{PACKAGE}.{name}.handler.handler",
            layers=dependencies.layers.of(self.configuration),
            role=self.role,
            log_group=self.log_group,
            timeout=Duration.seconds(self.configuration.timeout_seconds),
            memory_size=self.configuration.memory_mb,
            environment={**self._environment(dependencies), **(environment or {})},
            reserved_concurrent_executions=reserved_concurrency,
            # An execution invokes the version with which it started, so versions are retained as long as the function
            current_version_options=lambda_.VersionOptions(removal_policy=RemovalPolicy.RETAIN),
        )
        if self.configuration.calls is CalledApi.KUBERNETES and settings.vpc is not None:
            self._place_in_vpc(settings.vpc.subnets, settings.vpc.security_group)
        dependencies.storage.grant(self.role, self.configuration)

    def _log_group(self, settings: Settings) -> logs.LogGroup:
        return logs.LogGroup(
            self, "Logs", retention=log_retention(settings.logs.retention_days), removal_policy=RemovalPolicy.DESTROY
        )

    @property
    def published(self) -> lambda_.IVersion:
        """The version that state machines invoke."""
        return self.function.current_version

    @property
    def arns(self) -> list[str]:
        """What a caller may invoke: every version of the function, since an execution invokes the version with which it
        started."""
        return [self.function.function_arn, f"{self.function.function_arn}:*"]

    def grant(self, *statements: iam.PolicyStatement) -> None:
        """Add statements to the policy of the function's role; only the stack does."""
        for statement in statements:
            self.role.add_to_policy(statement)

    def _environment(self, dependencies: FunctionDependencies) -> dict[str, str]:
        settings = dependencies.settings
        local = settings.loopback_endpoint and self.configuration.calls is CalledApi.KUBERNETES
        return {
            "JOINER_CLUSTER": settings.cluster,
            **({"JOINER_LOOPBACK_ENDPOINT": "true"} if local else {}),
            "JOINER_TABLE": dependencies.storage.table.table_name,
            "JOINER_BUCKET": dependencies.storage.bucket.bucket_name,
            "POWERTOOLS_SERVICE_NAME": self.name,
            "POWERTOOLS_METRICS_NAMESPACE": "Joiner",
            "POWERTOOLS_LOG_LEVEL": settings.logs.level,
        }

    def _role(self, settings: Settings, name: str | None) -> iam.Role:
        role = iam.Role(
            self,
            "Role",
            role_name=name,
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"joiner {self.name} of {settings.cluster}",
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[self.log_group.log_group_arn]
            )
        )
        return role

    def _place_in_vpc(self, subnets: tuple[str, ...], security_group: str) -> None:
        # Ids through the L1 construct: the L2 construct needs the zones of all subnets, which only a query of the
        # account could find.
        resource = cast(lambda_.CfnFunction, self.function.node.default_child)
        resource.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
            subnet_ids=list(subnets), security_group_ids=[security_group]
        )
        self.role.add_to_policy(iam.PolicyStatement(actions=list(VPC_ACTIONS), resources=["*"]))
        self.role.add_to_policy(self._deny_interfaces_to_code())

    def _deny_interfaces_to_code(self) -> iam.PolicyStatement:
        """Deny the function's code the calls that Lambda makes itself: only calls of the code carry
        `lambda:SourceFunctionArn`.

        The condition matches any function. No other function assumes this role, and a policy that named the function
        would depend on the function, which depends on the policy.

        Source: AWS Lambda developer guide, "Giving Lambda functions access to resources in an Amazon VPC".
        """
        functions = Stack.of(self).format_arn(
            service="lambda", resource="function", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
        )
        return iam.PolicyStatement(
            effect=iam.Effect.DENY,
            actions=list(NETWORK_INTERFACE_ACTIONS),
            resources=["*"],
            conditions={"ArnLike": {"lambda:SourceFunctionArn": functions}},
        )


def lambda_runtime(target: BundleTarget) -> lambda_.Runtime:
    """Return Lambda's name of the target's Python. The local stack may run a version that Lambda never had."""
    return lambda_.Runtime(f"python{target.python}", lambda_.RuntimeFamily.PYTHON)


def lambda_architecture(target: BundleTarget) -> lambda_.Architecture:
    """Return Lambda's name of the target's architecture.

    >>> lambda_architecture(BundleTarget("3.14", "arm64")).name
    'arm64'
    """
    return lambda_.Architecture.ARM_64 if target.architecture == "arm64" else lambda_.Architecture.X86_64


def log_retention(days: int) -> logs.RetentionDays:
    """Return the CDK's constant for a number of days. The CDK lists its constants in order, but does not expose their
    days in Python."""
    return dict(zip(RETENTION_DAYS, logs.RetentionDays, strict=False))[days]
