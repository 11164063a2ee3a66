"""What the deployment installs in the cluster: CRDs, RBAC, and the webhook that calls the doorbell.

The installer may run in the cluster's VPC, where it reaches no AWS API. So another function, outside the VPC, describes
the cluster for it and records the endpoint and the CA for all functions. A third one makes the installer an
administrator, and revokes this afterwards. The installer applies the manifests of its own package, and only if their
digest is the one in the template.

Every deployment that changes anything runs all of them, because each installation replaces the secret of the doorbell.
CloudFormation updates a custom resource only if its properties change, so one property is the digest of everything from
which a template is made.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aws_cdk import CustomResource, Duration, Fn, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from infra.aws_permissions import ClusterNetwork
from infra.function_triggers import create_custom_resource, create_schedule
from infra.lambda_function import ROOT, FunctionDependencies, LambdaFunction
from infra.settings import Settings

MANIFESTS: Final = ROOT / "manifests"

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

    def __init__(self, scope: Construct, id: str, *, dependencies: FunctionDependencies, doorbell_url: str) -> None:
        super().__init__(scope, id)
        settings = dependencies.settings
        self.describer = LambdaFunction(self, "DescribeCluster", name="describe_cluster", dependencies=dependencies)
        self.installer = LambdaFunction(
            self,
            "InstallManifests",
            name="install_manifests",
            dependencies=dependencies,
            files={"manifests": MANIFESTS},
        )
        self.elevator = self._create_elevator(dependencies)
        digest = manifests_digest(MANIFESTS)
        rotation = rotation_digest(settings, str(self.node.try_get_context("rotate") or ""))
        parameter = settings.doorbell.ca_parameter
        self.cluster = self._describe_cluster(settings.cluster, digest, rotation, parameter)
        installed = {
            "Cluster": settings.cluster,
            "Endpoint": self.cluster.get_att_string("Endpoint"),
            "CertificateAuthority": self.cluster.get_att_string("CertificateAuthority"),
            "DoorbellUrl": doorbell_url,
            "Manifests": digest,
            "Rotation": rotation,
            **({"DoorbellCa": self.cluster.get_att_string("DoorbellCa")} if parameter else {}),
        }
        self.granted = self._installer_access("Granted", "before", installed)
        self.manifests = create_custom_resource(self, "Manifests", self.installer, "Custom::Manifests", installed)
        self.revoked = self._installer_access("Revoked", "after", installed)
        self.manifests.node.add_dependency(self.granted)
        self.revoked.node.add_dependency(self.manifests)
        self._grant_describing(settings.cluster, parameter)
        self._grant_elevating(settings.cluster)
        self._schedule("Describing", self.describer, "The cluster's endpoint and CA").node.add_dependency(self.cluster)
        # The schedule exists before access is granted and, at deletion, until it is revoked: a deployment or a deletion
        # that fails in between leaves no administrator
        self.granted.node.add_dependency(
            self._schedule("Revoking", self.elevator, "An installer that is an administrator no longer than it runs")
        )

    def _create_elevator(self, dependencies: FunctionDependencies) -> LambdaFunction:
        environment = {
            "JOINER_INSTALLER": self.installer.role.role_arn,
            "JOINER_INSTALLER_POLICY": self._administrator_policy(),
        }
        return LambdaFunction(
            self, "ElevateInstaller", name="elevate_installer", dependencies=dependencies, environment=environment
        )

    def _describe_cluster(self, cluster: str, digest: str, rotation: str, ca_parameter: str | None) -> CustomResource:
        """Return the custom resource that describes the cluster whenever there is something to install: EKS may have
        rotated the CA."""
        properties = {
            "Cluster": cluster,
            "Manifests": digest,
            "Attributes": ",".join(DESCRIBED_ATTRIBUTES),
            "Rotation": rotation,
            **({"CaParameter": ca_parameter} if ca_parameter else {}),
        }
        return create_custom_resource(self, "Cluster", self.describer, "Custom::ClusterDescription", properties)

    def _administrator_policy(self) -> str:
        return f"arn:{Stack.of(self).partition}:eks::aws:cluster-access-policy/{ADMINISTRATOR_POLICY}"

    def _installer_access(self, id: str, place: str, installed: Mapping[str, str]) -> CustomResource:
        """Return the custom resource that grants the installer's access, or the one that revokes it; they run whenever
        the installer runs."""
        return create_custom_resource(self, id, self.elevator, "Custom::InstallerAccess", {**installed, "Place": place})

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

    def _grant_elevating(self, cluster: str) -> None:
        """Allow `elevate_installer` one access policy, on one access entry."""
        stack = Stack.of(self)
        entry = stack.format_arn(
            service="eks",
            resource="access-entry",
            resource_name=f"{cluster}/role/{stack.account}/{self.installer.role.role_name}/*",
        )
        self.elevator.grant(
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


def manifests_digest(folder: Path) -> str:
    """Return the digest of the paths and contents of all manifests, in order. The installer computes it from its own
    package, too (`functions/install_manifests`)."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.yaml"), key=lambda each: each.relative_to(folder).as_posix()):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
