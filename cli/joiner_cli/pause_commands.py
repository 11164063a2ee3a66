"""The commands `joiner pause` and `joiner resume`, which write one SSM parameter.

Every function that changes something reads this parameter first.
"""

import os
import re
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console

from joiner.adapters.pause import Pause
from joiner.names import pause_parameter

CLUSTER_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")
"""Source: EKS, CreateCluster."""
SECONDS: Final = 5
"""Timeout of a connection and of a response: a pause is urgent."""

commentary = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)

Cluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="Name of the EKS cluster.", envvar="JOINER_CLUSTER")]
Region = Annotated[
    str | None,
    typer.Option(metavar="REGION", help="The cluster's region.", show_default="AWS_REGION, or the profile's"),
]


def pause_command(cluster: Cluster, region: Region = None) -> None:
    """Stop Joiner in one cluster until `resume`.

    Joiner launches and terminates no nodes; instances that are booting may still join.
    Exit code 0: Joiner is paused. 1: a call to AWS failed, or no Joiner is deployed for the cluster.
    """
    _set(cluster, region, paused=True)
    typer.echo(f"Joiner is paused in {cluster}")


def resume_command(cluster: Cluster, region: Region = None) -> None:
    """Let Joiner act again.

    The next sweep, within a minute, continues the work that waited. Exit codes are those of `pause`.
    """
    _set(cluster, region, paused=False)
    typer.echo(f"Joiner acts in {cluster}")


def _set(cluster: str, region: str | None, *, paused: bool) -> None:
    if not CLUSTER_NAME.fullmatch(cluster):
        _refuse(f"{cluster!r} is not a valid EKS cluster name: use up to 100 letters, digits, - and _")
    import boto3  # imported late: boto3 loads slowly
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    from joiner_cli.aws_errors import describe_aws_error

    needed = f"ssm:GetParameter and ssm:PutParameter on the parameter {pause_parameter(cluster)}"
    quick = Config(connect_timeout=SECONDS, read_timeout=SECONDS, retries={"total_max_attempts": 2})
    try:
        client = boto3.client("ssm", region_name=region or os.environ.get("AWS_REGION"), config=quick)
    except (BotoCoreError, ValueError) as error:  # botocore raises a plain ValueError for an invalid endpoint URL
        _refuse(describe_aws_error(error, needs=needed))
    try:
        Pause(client, cluster).set(paused)
    except (BotoCoreError, ClientError) as error:
        if isinstance(error, ClientError) and error.response["Error"]["Code"] == "ParameterNotFound":
            _refuse(
                f"no Joiner is deployed for a cluster {cluster} in this account and region: check its name, --region and AWS_PROFILE"
            )
        _refuse(describe_aws_error(error, needs=needed))


def _refuse(why: str) -> NoReturn:
    commentary.print(f"joiner: {why}")
    raise typer.Exit(1)
