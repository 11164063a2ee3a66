"""`joiner pause` and `joiner resume`: one SSM parameter, which whatever acts reads right before it acts."""

import os
from typing import Annotated

import typer
from rich.console import Console

from joiner.adapters.pause import Pause

commentary = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)

Cluster = Annotated[str, typer.Argument(help="Name of the EKS cluster.", envvar="JOINER_CLUSTER")]
Region = Annotated[str | None, typer.Option(help="The cluster's region.", show_default="AWS_REGION, or the profile's")]


def pause_command(cluster: Cluster, region: Region = None) -> None:
    """Let Joiner do nothing in a cluster until `resume`: no node comes, none goes. Nodes that boot at this moment may still join."""
    _set(cluster, region, paused=True)
    typer.echo(f"Joiner is paused in {cluster}")


def resume_command(cluster: Cluster, region: Region = None) -> None:
    """Let Joiner act again; the next sweep, within a minute, sees to all that waited."""
    _set(cluster, region, paused=False)
    typer.echo(f"Joiner acts in {cluster}")


def _set(cluster: str, region: str | None, *, paused: bool) -> None:
    import boto3  # here: it takes longer to import than all other commands take to run
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client = boto3.client("ssm", region_name=region or os.environ.get("AWS_REGION"))
        Pause(client, cluster).set(paused)
    except (BotoCoreError, ClientError) as error:
        missing = isinstance(error, ClientError) and error.response["Error"]["Code"] == "ParameterNotFound"
        why = f"no Joiner is deployed for a cluster {cluster} in this account and region" if missing else str(error)
        commentary.print(f"joiner: {why}")
        raise typer.Exit(1) from error
