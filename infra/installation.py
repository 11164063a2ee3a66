"""What the deployment puts into the cluster: CRDs, RBAC, and the webhook that rings the doorbell.

Two custom resources, because the installer may sit in the cluster's VPC where no AWS endpoint is: the first, outside, tells the cluster's
endpoint and CA to the second, inside. The installer applies the manifests of its own package and nothing else, and only if their digest
is the one that the template names.
"""

import hashlib
from pathlib import Path
from typing import Final

from aws_cdk import CustomResource, Duration, Fn, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.ec2_permissions import OwnNetwork
from infra.functions import ROOT, Function, Ground

MANIFESTS: Final = ROOT / "manifests"

DESCRIBED: Final = ("CertificateAuthority", "ControlPlaneEgress", "DoorbellCa", "Endpoint", "SecurityGroupId", "SubnetIds", "Version")
"""What `describe_cluster` answers. It is one of the resource's properties, so that an upgrade that needs a new attribute asks anew."""


class Installation(Construct):
    """The two functions and their custom resources."""

    def __init__(self, scope: Construct, id: str, *, ground: Ground, doorbell_url: str) -> None:
        super().__init__(scope, id)
        settings = ground.settings
        self.describer = Function(self, "DescribeCluster", name="describe_cluster", ground=ground)
        self.installer = Function(self, "InstallManifests", name="install_manifests", ground=ground, files={"manifests": MANIFESTS})
        digest = manifests_digest(MANIFESTS)
        parameter = settings.doorbell.ca_parameter
        self.cluster = CustomResource(
            self,
            "Cluster",
            service_token=self.describer.function.function_arn,
            resource_type="Custom::ClusterDescription",
            service_timeout=Duration.seconds(self.describer.duty.timeout + 30),
            # Described anew whenever there is something to install: the CA may have been rotated since
            properties={
                "Cluster": settings.cluster,
                "Manifests": digest,
                "Attributes": ",".join(DESCRIBED),
                **({"CaParameter": parameter} if parameter else {}),
            },
        )
        self.manifests = CustomResource(
            self,
            "Manifests",
            service_token=self.installer.function.function_arn,
            resource_type="Custom::Manifests",
            service_timeout=Duration.seconds(self.installer.duty.timeout + 30),
            properties={
                "Cluster": settings.cluster,
                "Endpoint": self.cluster.get_att_string("Endpoint"),
                "CertificateAuthority": self.cluster.get_att_string("CertificateAuthority"),
                "DoorbellUrl": doorbell_url,
                "Manifests": digest,
                **({"DoorbellCa": self.cluster.get_att_string("DoorbellCa")} if parameter else {}),
            },
        )
        self._let_describe(settings.cluster, parameter)

    @property
    def own_network(self) -> OwnNetwork:
        """What EKS described as the cluster's own at the deployment."""
        subnets = Fn.split(",", self.cluster.get_att_string("SubnetIds"))
        return OwnNetwork(subnets, [self.cluster.get_att_string("SecurityGroupId")])

    @property
    def egress(self) -> str:
        """What the cluster's egress mode means for the doorbell, in a sentence for people."""
        return self.cluster.get_att_string("ControlPlaneEgress")

    def _let_describe(self, cluster: str, parameter: str | None) -> None:
        arn = Stack.of(self).format_arn(service="eks", resource="cluster", resource_name=cluster)
        self.describer.may(iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[arn]))
        if parameter:
            arn = Stack.of(self).format_arn(service="ssm", resource="parameter", resource_name=parameter.lstrip("/"))
            self.describer.may(iam.PolicyStatement(actions=["ssm:GetParameter"], resources=[arn]))


def manifests_digest(folder: Path) -> str:
    """The digest that the installer computes from its own package, too (`functions/install_manifests`): paths and bytes, in order."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.yaml"), key=lambda each: each.relative_to(folder).as_posix()):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
