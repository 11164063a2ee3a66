"""One function: its code, its role, its log group and its published version. No two share any of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from aws_cdk import ArnFormat, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.asset_bundles import BundleTarget, bundle_requirements, bundle_sources
from infra.function_configuration import CONFIGURATIONS, CalledApi, FunctionConfiguration
from infra.settings import RETENTION_DAYS, Settings
from infra.storage import Storage

ROOT: Final = Path(__file__).parent.parent

PACKAGE: Final = "functions"
"""The package of all functions, and the folder that holds it."""

VPC_ACTIONS: Final = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
)
"""What Lambda itself does in the name of a function's role, to place it in a VPC; none of it can be held to one VPC's interfaces."""

NETWORK_INTERFACE_ACTIONS: Final = (*VPC_ACTIONS, "ec2:AttachNetworkInterface", "ec2:DetachNetworkInterface")
"""What the function's own code must not do with these rights."""


class LambdaLayers(Construct):
    """Our library, what every function imports, and what only some need: the Kubernetes client, the planner's arithmetic."""

    def __init__(self, scope: Construct, id: str, *, target: BundleTarget) -> None:
        super().__init__(scope, id)
        self._target = target
        library = bundle_sources("joiner", {"python": ROOT / "layers/joiner/python"}, target)
        self.joiner = self._layer("Joiner", library, "Joiner's own library")
        self.runtime = self._layer(
            "Runtime", bundle_requirements(ROOT / "layers/runtime", target), "Powertools and msgspec"
        )
        self.kubernetes = self._layer(
            "Kubernetes", bundle_requirements(ROOT / "layers/kubernetes", target), "The Kubernetes client"
        )
        self.planning = self._layer(
            "Planning", bundle_requirements(ROOT / "layers/planning", target), "numpy and HiGHS"
        )

    def of(self, configuration: FunctionConfiguration) -> list[lambda_.ILayerVersion]:
        """The layers of a function with this duty; a later one covers an earlier one's files."""
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
    """What every function stands on."""

    settings: Settings
    target: BundleTarget
    layers: LambdaLayers
    storage: Storage


class LambdaFunction(Construct):
    """The function of one folder under `functions/`, as its configuration says."""

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
    ) -> None:
        super().__init__(scope, id)
        self.name = name
        self.configuration: FunctionConfiguration = CONFIGURATIONS[name]
        settings = dependencies.settings
        self.log_group = logs.LogGroup(
            self, "Logs", retention=log_retention(settings.logs.retention_days), removal_policy=RemovalPolicy.DESTROY
        )
        self.role = self._role(settings)
        code = bundle_function(name, files or {}, dependencies.target)
        self.function = lambda_.Function(
            self,
            "Function",
            description=self.configuration.description,
            runtime=lambda_runtime(dependencies.target),
            architecture=lambda_architecture(dependencies.target),
            code=lambda_.Code.from_asset(str(code)),
            handler=f"{PACKAGE}.{name}.handler.handler",
            layers=dependencies.layers.of(self.configuration),
            role=self.role,
            log_group=self.log_group,
            timeout=Duration.seconds(self.configuration.timeout_seconds),
            memory_size=self.configuration.memory_mb,
            environment={
                "JOINER_CLUSTER": settings.cluster,
                **(
                    {"JOINER_LOOPBACK_ENDPOINT": "true"}
                    if settings.loopback_endpoint and self.configuration.calls is CalledApi.KUBERNETES
                    else {}
                ),
                "JOINER_TABLE": dependencies.storage.table.table_name,
                "JOINER_BUCKET": dependencies.storage.bucket.bucket_name,
                "POWERTOOLS_SERVICE_NAME": name,
                "POWERTOOLS_METRICS_NAMESPACE": "Joiner",
                "POWERTOOLS_LOG_LEVEL": settings.logs.level,
                **(environment or {}),
            },
            reserved_concurrent_executions=reserved_concurrency,
            # An execution that began before an upgrade calls the version it began with: versions stay until the function goes.
            current_version_options=lambda_.VersionOptions(removal_policy=RemovalPolicy.RETAIN),
        )
        if self.configuration.calls is CalledApi.KUBERNETES and settings.vpc is not None:
            self._sit_in(settings.vpc.subnets, settings.vpc.security_group)
        dependencies.storage.grant(self.role, self.configuration)

    @property
    def published(self) -> lambda_.IVersion:
        """The version that state machines call."""
        return self.function.current_version

    @property
    def arns(self) -> list[str]:
        """What a caller may invoke: the function in all its versions, because an old execution calls an old one."""
        return [self.function.function_arn, f"{self.function.function_arn}:*"]

    def grant(self, *statements: iam.PolicyStatement) -> None:
        """Grant this function more; only the stack does."""
        for statement in statements:
            self.role.add_to_policy(statement)

    def _role(self, settings: Settings) -> iam.Role:
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"joiner {self.name} of {settings.cluster}",
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[self.log_group.log_group_arn]
            )
        )
        return role

    def _sit_in(self, subnets: tuple[str, ...], security_group: str) -> None:
        # By ids through the L1: the L2 wants a VPC with all its subnets' zones, which only a look-up in the account could tell
        resource = cast(lambda_.CfnFunction, self.function.node.default_child)
        resource.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
            subnet_ids=list(subnets), security_group_ids=[security_group]
        )
        self.role.add_to_policy(iam.PolicyStatement(actions=list(VPC_ACTIONS), resources=["*"]))
        self.role.add_to_policy(self._deny_interfaces_to_code())

    def _deny_interfaces_to_code(self) -> iam.PolicyStatement:
        """Deny the code what Lambda itself needs: only calls from within a function carry `lambda:SourceFunctionArn`.

        Source: AWS Lambda developer guide, "Giving Lambda functions access to resources in an Amazon VPC". Any function stands for this
        one: nobody else assumes its role, and a policy that named it would depend on the function that depends on the policy.
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


def bundle_function(name: str, files: Mapping[str, Path], target: BundleTarget) -> Path:
    """Pack a function as a part of the package `functions`; `files` are folders that come into its own."""
    package, folder = f"{PACKAGE}/__init__.py", f"{PACKAGE}/{name}"
    inside = {f"{folder}/{prefix}": path for prefix, path in files.items()}
    return bundle_sources(name, {package: ROOT / package, folder: ROOT / folder, **inside}, target)


def lambda_runtime(target: BundleTarget) -> lambda_.Runtime:
    """Lambda's name of the target's Python; the local stack may run one that Lambda never had."""
    return lambda_.Runtime(f"python{target.python}", lambda_.RuntimeFamily.PYTHON)


def lambda_architecture(target: BundleTarget) -> lambda_.Architecture:
    """
    >>> architecture_of(Target("3.14", "arm64")).name
    'arm64'
    """
    return lambda_.Architecture.ARM_64 if target.architecture == "arm64" else lambda_.Architecture.X86_64


def log_retention(days: int) -> logs.RetentionDays:
    """CDK's word for a period: it lists them in order, but gives their days to nobody in Python."""
    return dict(zip(RETENTION_DAYS, logs.RetentionDays, strict=False))[days]
