"""The commands `joiner pause` and `joiner resume`, which write one SSM parameter.

Every function that changes something reads this parameter first.
"""

import os
from typing import Annotated, Final

import typer

from joiner.adapters.pause import Pause
from joiner.names import PAUSED, pause_parameter
from joiner_cli.deployed_stack import Region, check_cluster_name, exit_with_error

SECONDS: Final = 5
"""Timeout of a connection and of a response: a pause is urgent."""

ClusterArgument = Annotated[
    str, typer.Argument(metavar="CLUSTER", help="Name of the EKS cluster.", envvar="JOINER_CLUSTER")
]


def pause_command(cluster: ClusterArgument, region: Region = None) -> None:
    """Stop Joiner in one cluster until `resume`.

    Joiner launches and terminates no nodes; instances that are booting may still join.
    Exit code 0: Joiner is paused. 1: a call to AWS failed, or no Joiner is deployed for the cluster.
    """
    changed = _set(cluster, region, paused=True)
    typer.echo(f"Joiner is paused in {cluster}" if changed else f"Joiner was paused in {cluster} already")


def resume_command(cluster: ClusterArgument, region: Region = None) -> None:
    """Let Joiner act again.

    The next sweep, within a minute, continues the work that waited. Exit codes are those of `pause`.
    """
    _set(cluster, region, paused=False)
    typer.echo(f"Joiner acts in {cluster}")


def _set(cluster: str, region: str | None, *, paused: bool) -> bool:
    """Return whether this changed something; a resumption always does."""
    check_cluster_name(cluster)
    import boto3  # imported late: boto3 loads slowly
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    from joiner_cli.aws_errors import AWS_ERRORS, describe_aws_error

    needed = f"ssm:GetParameter and ssm:PutParameter on the parameter {pause_parameter(cluster)}"
    quick = Config(connect_timeout=SECONDS, read_timeout=SECONDS, retries={"total_max_attempts": 2})
    try:
        client = boto3.client("ssm", region_name=region or os.environ.get("AWS_REGION"), config=quick)
    except (BotoCoreError, ValueError) as error:  # botocore raises a plain ValueError for an invalid endpoint URL
        exit_with_error(describe_aws_error(error, needs=needed))
    try:
        switch = Pause(client, cluster)
        if paused and switch.value() == PAUSED:  # another write would move the time since when it is paused
            return False
        switch.set(paused)
    except AWS_ERRORS as error:
        if isinstance(error, ClientError) and error.response["Error"]["Code"] == "ParameterNotFound":
            exit_with_error(
                f"no Joiner is deployed for a cluster {cluster} in this account and region: check its name, --region "
                "and AWS_PROFILE"
            )
        exit_with_error(describe_aws_error(error, needs=needed))
    return True
