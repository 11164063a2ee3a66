"""The command `joiner uninstall`, which prepares the deletion of the stack.

Like `joiner pause` it writes one SSM parameter. `drain`: Joiner launches nothing, and each sweep retires all nodes.
`keep`: Joiner does nothing, and the stack can be deleted while nodes run; the deletion releases NodeClaims and Nodes.
"""

import time
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer

from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_instances import Instance
from joiner.adapters.pause import Pause
from joiner.names import DRAINING, KEEPING, NODECLAIM, pause_parameter
from joiner_cli.deployed_stack import (
    Cluster,
    DeployedStack,
    Region,
    aws_errors_reported,
    commentary,
    exit_with_error,
)
from joiner_cli.unexpected_errors import INTERRUPTED

NODES_LEFT: Final = 2
POLL_SECONDS: Final = 5.0  # seconds
WAIT_MINUTES: Final = 60.0
MAX_NAMED_NODES: Final = 5  # nodes in one line of progress


class NodeHandling(StrEnum):
    """What happens to the nodes."""

    KEEP = "keep"
    DRAIN = "drain"


def uninstall_command(
    cluster: Cluster,
    nodes: Annotated[
        NodeHandling, typer.Option(help="keep: nodes continue to run without Joiner. drain: drain and terminate them.")
    ],
    region: Region = None,
    wait: Annotated[bool, typer.Option(help="Wait until no node is left (drain).")] = True,
    timeout: Annotated[
        float | None, typer.Option(metavar="MINUTES", min=0, help=f"How long to wait ({WAIT_MINUTES:g} by default).")
    ] = None,
) -> None:
    """Prepare the deletion of the stack (`cdk destroy`), which is refused while nodes run.

    Exit code 0: the stack can be deleted. 2: nodes are left and are being drained. 1: a call to AWS failed, or no
    Joiner is deployed for the cluster. 130: interrupted; the drain continues.
    """
    if timeout is not None and not wait:
        exit_with_error("--timeout and --no-wait exclude each other: leave one of them out")
    if nodes is NodeHandling.KEEP and (timeout is not None or not wait):
        exit_with_error("--timeout and --no-wait are for --nodes drain: with keep, there is nothing to wait for")
    here = DeployedStack.find(cluster, region)
    needs = (
        f"ssm:GetParameter and ssm:PutParameter on {pause_parameter(cluster)}, ec2:DescribeInstances, "
        "states:StartExecution"
    )
    try:
        with aws_errors_reported(needs):
            _write_parameter(here, KEEPING if nodes is NodeHandling.KEEP else DRAINING)
            left = _instances(here)
            if nodes is NodeHandling.KEEP:
                _report_kept(here, left)
                return
            _drain(
                here, left, until=time.monotonic() + 60 * (WAIT_MINUTES if timeout is None else timeout) if wait else 0
            )
    except KeyboardInterrupt:
        commentary.print(
            "joiner: interrupted; the drain continues. Run this again to wait for it, or stop it: joiner pause "
            f"{cluster}"
        )
        raise typer.Exit(INTERRUPTED) from None


def _write_parameter(here: DeployedStack, value: str) -> None:
    from botocore.exceptions import ClientError

    try:
        Pause(here.client("ssm"), here.cluster).write(value)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ParameterNotFound":
            exit_with_error(
                f"there is no parameter {pause_parameter(here.cluster)}: deploy the stack again, or delete it"
            )
        raise


def _instances(here: DeployedStack) -> list[Instance]:
    return Ec2(here.client("ec2", seconds=30)).instances_left_of_cluster(here.cluster)


def _report_kept(here: DeployedStack, left: Sequence[Instance]) -> None:
    typer.echo(f"Joiner is stopped in {here.cluster}; {_count_nodes(len(left))} will continue to run without it")
    commentary.print(
        f"Delete the stack now: {here.deletion_command} (in the checkout that deployed it). Access entries, instance "
        "profiles and roles of these nodes stay; docs/uninstall.md describes how to delete them later. To let Joiner "
        f"act again instead: joiner resume {here.cluster}"
    )


def _drain(here: DeployedStack, left: Sequence[Instance], *, until: float) -> None:
    """Start a sweep, and wait until no instance is left; the sweep of each minute retires nodes."""
    if left:
        here.client("stepfunctions").start_execution(stateMachineArn=here.outputs["SweepArn"], input="{}")
    began, reported = len(left), ""
    while left:
        progress = f"{began - len(left)} of {_count_nodes(began)} gone; left: {_list_names(left)}"
        if progress != reported:
            commentary.print(progress)
            reported = progress
        if time.monotonic() >= until:
            typer.echo(f"{_count_nodes(len(left))} of Joiner in {here.cluster} are being drained")
            commentary.print(
                "The NodeClaim of each node says what blocks it: kubectl get nodeclaims -o yaml. Run this again to "
                "wait."
            )
            commentary.print(
                "Only a scale-up finishes a NodeClaim without the condition Launched: "
                f"joiner resume {here.cluster}, wait two minutes, and run this again."
            )
            raise typer.Exit(NODES_LEFT)
        time.sleep(POLL_SECONDS)
        left = _instances(here)
        began = max(began, len(left))
    typer.echo(f"No instance of Joiner is left in {here.cluster}; nothing will be launched")
    commentary.print(
        "Their NodeClaims and Nodes are deleted by the same retirements: delete the stack when kubectl get nodeclaims "
        f"shows none: {here.deletion_command} (in the checkout that deployed it). To let Joiner act again: "
        f"joiner resume {here.cluster}"
    )


def _count_nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _list_names(left: Sequence[Instance]) -> str:
    names = [each.tags.get(NODECLAIM) or each.id for each in left[:MAX_NAMED_NODES]]
    return ", ".join(names + ([f"and {len(left) - MAX_NAMED_NODES} more"] if len(left) > MAX_NAMED_NODES else []))
