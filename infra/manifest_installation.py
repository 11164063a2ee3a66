"""What the deployment installs in the cluster: CRDs, RBAC, and the webhook that calls the doorbell.

The installer may run in the cluster's VPC, where it reaches no AWS API. So another function, outside the VPC, describes
the cluster for it and records the endpoint and the CA for all functions. A third one makes the installer an
administrator, and revokes this afterwards. (In a cluster of the authentication mode CONFIG_MAP the installer always is
one, and maps the roles of nodes and functions in aws-auth.) The installer applies the manifests of its own package, and
only if their digest is the one in the template.

Every deployment that changes anything runs all of them, because each installation replaces the secret of the doorbell.
CloudFormation updates a custom resource only if its properties change, so one property is the digest of everything from
which a template is made.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import CustomResource, Duration, Fn, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from infra.asset_bundles import ROOT
from infra.aws_permissions import ClusterNetwork
from infra.function_triggers import create_custom_resource, create_schedule
from infra.lambda_function import FunctionDependencies, LambdaFunction
from infra.manifest_files import MANIFESTS, manifests_digest
from infra.node_roles import NodeIdentity
from infra.settings import Settings
from joiner.names import installer_role_name

DESCRIBED_ATTRIBUTES: Final = (
    "CertificateAuthority",
    "ControlPlaneEgress",
    "DoorbellCa",
    "Endpoint",
    "SecurityGroupId",
    "SubnetIds",
    "Version",
)
"""The attributes that `describe_cluster` returns. They are a property of the resource, so that an upgrade that needs
another attribute calls the function again."""

ADMINISTRATOR_POLICY: Final = "AmazonEKSClusterAdminPolicy"
"""Kubernetes lets a subject grant only rights that it has. No smaller access policy of EKS covers CRDs, webhooks and
RBAC."""

REPEAT_INTERVAL: Final = Duration.minutes(5)
"""How often the cluster is described again, and a leftover access of the installer is revoked."""

TEMPLATE_SOURCES: Final = (
    "app.py",
    "cdk.json",
    "infra/**/*.py",
    "functions/**/*.py",
    "layers/**/*.py",
    "layers/**/*.lock",
    "layers/**/*.txt",
)
"""What a template is made of, besides the manifests and the settings."""


class ManifestInstallation(Construct):
    """The three functions, their custom resources and their schedules."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        dependencies: FunctionDependencies,
        doorbell_url: str,
        admitted: Sequence[LambdaFunction],
        nodes: NodeIdentity,
    ) -> None:
        """`admitted` are the functions that call the Kubernetes API. In a cluster without access entries the installer
        maps their roles and those of `nodes`."""
        super().__init__(scope, id)
        settings = dependencies.settings
        self._cluster_name = settings.cluster
        self.describer = LambdaFunction(self, "DescribeCluster", name="describe_cluster", dependencies=dependencies)
        self.installer = self._create_installer(dependencies)
        self.elevator: LambdaFunction | None = None
        digest = manifests_digest(MANIFESTS)
        rotation = rotation_digest(settings, str(self.node.try_get_context("rotate") or ""))
        parameter = settings.doorbell.ca_parameter
        self.cluster = self._describe_cluster(settings, digest, rotation)
        installed = {
            **self._described(settings, with_ca=bool(parameter)),
            "DoorbellUrl": doorbell_url,
            "Manifests": digest,
            "Rotation": rotation,
        }
        mappings = {"Mappings": self._mappings(settings, admitted, nodes)} if settings.uses_aws_auth else {}
        self.manifests = create_custom_resource(
            self, "Manifests", self.installer, "Custom::Manifests", {**installed, **mappings}
        )
        self.first = self.last = self.manifests
        if not settings.uses_aws_auth:
            self.elevator = self._create_elevator(dependencies)
            self.first, self.last = self._elevate(self.elevator, installed)
        self._grant_describing(settings.cluster, parameter)
        self._schedule("Describing", self.describer, "The cluster's endpoint and CA").node.add_dependency(self.cluster)

    def _create_installer(self, dependencies: FunctionDependencies) -> LambdaFunction:
        settings = dependencies.settings
        return LambdaFunction(
            self,
            "InstallManifests",
            name="install_manifests",
            dependencies=dependencies,
            files={"manifests": MANIFESTS},
            role_name=installer_role_name(settings.cluster, settings.region) if settings.uses_aws_auth else None,
        )

    def _described(self, settings: Settings, *, with_ca: bool) -> dict[str, str]:
        """Return the properties that come from the description of the cluster."""
        attributes = ("Endpoint", "CertificateAuthority", *(["DoorbellCa"] if with_ca else []))
        return {"Cluster": settings.cluster, **{name: self.cluster.get_att_string(name) for name in attributes}}

    def _mappings(self, settings: Settings, admitted: Sequence[LambdaFunction], nodes: NodeIdentity) -> str:
        """Return what the installer maps in aws-auth, as JSON."""
        functions = {each.role.role_arn: list(each.configuration.groups) for each in admitted}
        mapped = {
            "functions": [{"role": role, "groups": groups} for role, groups in functions.items()],
            "installer": self.installer.role.role_arn,
            "nodes": nodes.arns if settings.node_roles.manage_node_access_entry else [],
            "windowsNodes": nodes.windows_arns,
            "ownNode": nodes.own_arn,
        }
        return Stack.of(self).to_json_string(mapped)

    def _elevate(self, elevator: LambdaFunction, installed: Mapping[str, str]) -> tuple[CustomResource, CustomResource]:
        """Return the resource that makes the installer an administrator before it runs, and the one that revokes it."""
        granted = self._installer_access(elevator, "Granted", "before", installed)
        revoked = self._installer_access(elevator, "Revoked", "after", installed)
        self.manifests.node.add_dependency(granted)
        revoked.node.add_dependency(self.manifests)
        self._grant_elevating(elevator)
        # The schedule exists before access is granted and, at deletion, until it is revoked: a deployment or a deletion
        # that fails in between leaves no administrator
        granted.node.add_dependency(
            self._schedule("Revoking", elevator, "An installer that is an administrator no longer than it runs")
        )
        return granted, revoked

    def _create_elevator(self, dependencies: FunctionDependencies) -> LambdaFunction:
        environment = {
            "JOINER_INSTALLER": self.installer.role.role_arn,
            "JOINER_INSTALLER_POLICY": self._administrator_policy(),
        }
        return LambdaFunction(
            self, "ElevateInstaller", name="elevate_installer", dependencies=dependencies, environment=environment
        )

    def _describe_cluster(self, settings: Settings, digest: str, rotation: str) -> CustomResource:
        """Return the custom resource that describes the cluster whenever there is something to install: EKS may have
        rotated the CA."""
        ca_parameter = settings.doorbell.ca_parameter
        properties = {
            "Cluster": settings.cluster,
            "AuthenticationMode": settings.authentication_mode,
            "Manifests": digest,
            "Attributes": ",".join(DESCRIBED_ATTRIBUTES),
            "Rotation": rotation,
            **({"CaParameter": ca_parameter} if ca_parameter else {}),
        }
        return create_custom_resource(self, "Cluster", self.describer, "Custom::ClusterDescription", properties)

    def _administrator_policy(self) -> str:
        return f"arn:{Stack.of(self).partition}:eks::aws:cluster-access-policy/{ADMINISTRATOR_POLICY}"

    def _installer_access(
        self, elevator: LambdaFunction, id: str, place: str, installed: Mapping[str, str]
    ) -> CustomResource:
        """Return the custom resource that grants the installer's access, or the one that revokes it; they run whenever
        the installer runs."""
        return create_custom_resource(self, id, elevator, "Custom::InstallerAccess", {**installed, "Place": place})

    def _schedule(self, id: str, function: LambdaFunction, description: str) -> scheduler.Schedule:
        return create_schedule(
            self,
            id,
            function,
            description,
            every=REPEAT_INTERVAL,
            retry_attempts=2,
            max_event_age=Duration.minutes(5),
        )

    def _grant_elevating(self, elevator: LambdaFunction) -> None:
        """Allow `elevate_installer` one access policy, on one access entry."""
        stack = Stack.of(self)
        entry = stack.format_arn(
            service="eks",
            resource="access-entry",
            resource_name=f"{self._cluster_name}/role/{stack.account}/{self.installer.role.role_name}/*",
        )
        elevator.grant(
            iam.PolicyStatement(
                actions=["eks:AssociateAccessPolicy"],
                resources=[entry],
                conditions={
                    "StringEquals": {"eks:policyArn": self._administrator_policy(), "eks:accessScope": "cluster"}
                },
            ),
            iam.PolicyStatement(
                actions=["eks:DisassociateAccessPolicy", "eks:ListAssociatedAccessPolicies"], resources=[entry]
            ),
        )

    @property
    def own_network(self) -> ClusterNetwork:
        """The subnets and the security group that EKS describes as the cluster's own, as of the last change of the
        resource."""
        subnets = Fn.split(",", self.cluster.get_att_string("SubnetIds"))
        return ClusterNetwork(subnets, [self.cluster.get_att_string("SecurityGroupId")])

    @property
    def egress(self) -> str:
        """Whether the cluster's API server reaches the doorbell, as a sentence for users."""
        return self.cluster.get_att_string("ControlPlaneEgress")

    def _grant_describing(self, cluster: str, parameter: str | None) -> None:
        arn = Stack.of(self).format_arn(service="eks", resource="cluster", resource_name=cluster)
        self.describer.grant(iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[arn]))
        if parameter:
            arn = Stack.of(self).format_arn(service="ssm", resource="parameter", resource_name=parameter.lstrip("/"))
            self.describer.grant(iam.PolicyStatement(actions=["ssm:GetParameter"], resources=[arn]))


def rotation_digest(settings: Settings, word: str) -> str:
    """Return a digest that changes with everything from which a template is made, and with `word` (`cdk deploy -c
    rotate=WORD`)."""
    digest = hashlib.sha256(f"{settings!r} {word} {manifests_digest(MANIFESTS)}".encode())
    for path in sorted({path for pattern in TEMPLATE_SOURCES for path in ROOT.glob(pattern)}):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
