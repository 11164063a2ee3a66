"""The command `joiner admit-installer`, for clusters of the authentication mode CONFIG_MAP.

Only an administrator of such a cluster can write the ConfigMap kube-system/aws-auth, and no function of Joiner is one
before the first deployment. This command adds the one entry that makes the installer an administrator; the installer
adds the others.
"""

import os

import typer

from joiner.adapters import aws_auth
from joiner.adapters.kube_errors import Forbidden, KubeError, Unauthorized
from joiner.adapters.role_mappings import RoleMapping
from joiner.names import installer_role_name
from joiner_cli.acceptance.acceptance_run import connect_api_server
from joiner_cli.deployed_stack import (
    Cluster,
    DeployedStack,
    Region,
    aws_errors_reported,
    check_cluster_name,
    commentary,
    exit_with_error,
)

NEEDS = "eks:DescribeCluster on the cluster"


def admit_installer_command(cluster: Cluster, region: Region = None) -> None:
    """Give Joiner's installer access to a cluster that reads IAM roles from aws-auth only.

    Needed once, before the first deployment with `authenticationMode: CONFIG_MAP`. The role may not exist yet. The
    caller must be an administrator of the cluster. Exit code 0: the installer is admitted. 1: it is not.
    """
    check_cluster_name(cluster)
    import boto3  # imported late: boto3 loads slowly

    with aws_errors_reported(NEEDS):
        session = boto3.Session(region_name=region or os.environ.get("AWS_REGION"))
        here = DeployedStack(cluster, str(session.region_name or ""), {}, session)
        described = here.client("eks").describe_cluster(name=cluster)["cluster"]
        mode = (described.get("accessConfig") or {}).get("authenticationMode") or "CONFIG_MAP"
        if mode != "CONFIG_MAP":
            typer.echo(f"{cluster} has access entries (authentication mode {mode}): nothing is to be done")
            return
        partition, account = described["arn"].split(":")[1], described["arn"].split(":")[4]
        _admit(here, f"arn:{partition}:iam::{account}:role/{installer_role_name(cluster, here.region)}")


def _admit(here: DeployedStack, role: str) -> None:
    installer = RoleMapping.of_sessions(role, ["system:masters"])
    try:
        kube = connect_api_server(here)()
        changed = aws_auth.write(kube, lambda mapped: aws_auth.map_roles(mapped, [installer], [], keep=True))
    except aws_auth.MappingRefused as refusal:
        exit_with_error(str(refusal))
    except (Forbidden, Unauthorized) as refusal:
        exit_with_error(
            f"{here.cluster} does not let you write the ConfigMap {aws_auth.NAMESPACE}/{aws_auth.NAME} ({refusal}): "
            "use the credentials of an administrator of the cluster (AWS_PROFILE); the identity that created it is one"
        )
    except KubeError as error:
        exit_with_error(f"the API server of {here.cluster}: {error}")
    typer.echo(f"{role} is {'now ' if changed else 'already '}an administrator of {here.cluster}")
    commentary.print("Deploy with authenticationMode: CONFIG_MAP in the settings of the cluster, clusters/NAME.yaml")
