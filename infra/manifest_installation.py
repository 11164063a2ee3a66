"""What the deployment puts into the cluster: CRDs, RBAC, and the webhook that rings the doorbell.

The installer may sit in the cluster's VPC, where no AWS endpoint is, so another custom resource, outside, describes the cluster to it and
records the endpoint and the CA for all functions. Two more surround the installer: it is an administrator only while it runs. The
installer applies the manifests of its own package and nothing else, and only if their digest is the one that the template names.

Every deployment that changes anything runs both again, because each replaces the doorbell's secret. CloudFormation calls a custom resource
only if its properties changed, so one of them is the digest of all that a template is made of.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aws_cdk import CustomResource, Duration, Fn, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from infra.aws_permissions import ClusterNetwork
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
"""What `describe_cluster` answers. It is one of the resource's properties, so that an upgrade that needs a new attribute asks anew."""

ADMINISTRATOR_POLICY: Final = "AmazonEKSClusterAdminPolicy"
"""RBAC asks of whoever grants something to hold it; no lesser access policy of EKS covers CRDs, webhooks and RBAC."""

REPEAT_INTERVAL: Final = Duration.minutes(5)
"""How often the cluster is described again, and an installer's left-over access looked for."""

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
        rotation = rotation_digest(dependencies.settings, str(self.node.try_get_context("rotate") or ""))
        settings = dependencies.settings
        self.describer = LambdaFunction(self, "DescribeCluster", name="describe_cluster", dependencies=dependencies)
        self.installer = LambdaFunction(
            self,
            "InstallManifests",
            name="install_manifests",
            dependencies=dependencies,
            files={"manifests": MANIFESTS},
        )
        partition = Stack.of(self).partition
        self.elevator = LambdaFunction(
            self,
            "ElevateInstaller",
            name="elevate_installer",
            dependencies=dependencies,
            environment={
                "JOINER_INSTALLER": self.installer.role.role_arn,
                "JOINER_INSTALLER_POLICY": f"arn:{partition}:eks::aws:cluster-access-policy/{ADMINISTRATOR_POLICY}",
            },
        )
        digest = manifests_digest(MANIFESTS)
        parameter = settings.doorbell.ca_parameter
        self.cluster = CustomResource(
            self,
            "Cluster",
            service_token=self.describer.function.function_arn,
            resource_type="Custom::ClusterDescription",
            service_timeout=Duration.seconds(self.describer.configuration.timeout_seconds + 30),
            # Described anew whenever there is something to install: the CA may have been rotated since
            properties={
                "Cluster": settings.cluster,
                "Manifests": digest,
                "Attributes": ",".join(DESCRIBED_ATTRIBUTES),
                "Rotation": rotation,
                **({"CaParameter": parameter} if parameter else {}),
            },
        )
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
        self.manifests = CustomResource(
            self,
            "Manifests",
            service_token=self.installer.function.function_arn,
            resource_type="Custom::Manifests",
            service_timeout=Duration.seconds(self.installer.configuration.timeout_seconds + 30),
            properties=installed,
        )
        self.revoked = self._installer_access("Revoked", "after", installed)
        self.manifests.node.add_dependency(self.granted)
        self.revoked.node.add_dependency(self.manifests)
        self._grant_describing(settings.cluster, parameter)
        self._grant_elevating(settings.cluster)
        self._schedule("Describing", self.describer, "The cluster's endpoint and CA").node.add_dependency(self.cluster)
        # Before access is granted and, at deletion, until it is revoked: so a deployment or a deletion that fails in between leaves none
        self.granted.node.add_dependency(
            self._schedule("Revoking", self.elevator, "An installer that is an administrator no longer than it runs")
        )

    def _installer_access(self, id: str, place: str, installed: Mapping[str, str]) -> CustomResource:
        """One of the two that surround the installer; they change whenever it runs."""
        return CustomResource(
            self,
            id,
            service_token=self.elevator.function.function_arn,
            resource_type="Custom::InstallerAccess",
            service_timeout=Duration.seconds(self.elevator.configuration.timeout_seconds + 30),
            properties={**installed, "Place": place},
        )

    def _schedule(self, id: str, function: LambdaFunction, description: str) -> scheduler.Schedule:
        return scheduler.Schedule(
            self,
            id,
            schedule=scheduler.ScheduleExpression.rate(REPEAT_INTERVAL),
            target=targets.LambdaInvoke(function.function, retry_attempts=2, max_event_age=Duration.minutes(5)),
            description=description,
        )

    def _grant_elevating(self, cluster: str) -> None:
        """One policy, on one entry."""
        stack = Stack.of(self)
        entry = stack.format_arn(
            service="eks",
            resource="access-entry",
            resource_name=f"{cluster}/role/{stack.account}/{self.installer.role.role_name}/*",
        )
        policy = f"arn:{stack.partition}:eks::aws:cluster-access-policy/{ADMINISTRATOR_POLICY}"
        self.elevator.grant(
            iam.PolicyStatement(
                actions=["eks:AssociateAccessPolicy"],
                resources=[entry],
                conditions={"StringEquals": {"eks:policyArn": policy, "eks:accessScope": "cluster"}},
            ),
            iam.PolicyStatement(
                actions=["eks:DisassociateAccessPolicy", "eks:ListAssociatedAccessPolicies"], resources=[entry]
            ),
        )

    @property
    def own_network(self) -> ClusterNetwork:
        """What EKS described as the cluster's own at the deployment."""
        subnets = Fn.split(",", self.cluster.get_att_string("SubnetIds"))
        return ClusterNetwork(subnets, [self.cluster.get_att_string("SecurityGroupId")])

    @property
    def egress(self) -> str:
        """What the cluster's egress mode means for the doorbell, in a sentence for people."""
        return self.cluster.get_att_string("ControlPlaneEgress")

    def _grant_describing(self, cluster: str, parameter: str | None) -> None:
        arn = Stack.of(self).format_arn(service="eks", resource="cluster", resource_name=cluster)
        self.describer.grant(iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[arn]))
        if parameter:
            arn = Stack.of(self).format_arn(service="ssm", resource="parameter", resource_name=parameter.lstrip("/"))
            self.describer.grant(iam.PolicyStatement(actions=["ssm:GetParameter"], resources=[arn]))


def rotation_digest(settings: Settings, asked: str) -> str:
    """Another one for every change of what a template is made of, and for every other word in `asked` (`cdk deploy -c rotate=WORD`)."""
    digest = hashlib.sha256(f"{settings!r} {asked} {manifests_digest(MANIFESTS)}".encode())
    for path in sorted({path for pattern in TEMPLATE_SOURCES for path in ROOT.glob(pattern)}):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def manifests_digest(folder: Path) -> str:
    """The digest that the installer computes from its own package, too (`functions/install_manifests`): paths and bytes, in order."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.yaml"), key=lambda each: each.relative_to(folder).as_posix()):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
