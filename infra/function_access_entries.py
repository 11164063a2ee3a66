"""EKS access entries of the functions that call the Kubernetes API.

The entry of a function's role has the groups of its configuration; RBAC in the cluster defines what each group may do.
The entry of the installer gives no rights: `elevate_installer` makes it an administrator while it runs.
"""

from collections.abc import Iterable

from aws_cdk import aws_eks as eks
from constructs import Construct

from infra.lambda_function import LambdaFunction
from infra.settings import Settings


class FunctionAccessEntries(Construct):
    """The access entries of the functions that call the Kubernetes API, and of the installer."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        functions: Iterable[LambdaFunction],
        installer: LambdaFunction,
    ) -> None:
        super().__init__(scope, id)
        for function in functions:
            eks.CfnAccessEntry(
                self,
                function.node.id,
                cluster_name=settings.cluster,
                principal_arn=function.role.role_arn,
                kubernetes_groups=list(function.configuration.groups),
            )
        eks.CfnAccessEntry(self, "Installer", cluster_name=settings.cluster, principal_arn=installer.role.role_arn)
