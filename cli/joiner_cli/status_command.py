"""The command `joiner status`: whether Joiner is deployed for a cluster, and whether it acts or is paused.

It only reads: the stack, the parameter that `joiner pause` and `joiner uninstall` write, EC2, and the last scale-up.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from joiner.adapters.ec2_client import Ec2
from joiner.names import ACTING, DELETING, DRAINING, KEEPING, PAUSED, pause_parameter, stack_name
from joiner.pools.timestamps import format_timestamp
from joiner_cli.deployed_stack import DeployedStack, Region, aws_errors_reported, exit_with_error
from joiner_cli.last_scale_up import LastScaleUp, find_last_scale_up
from joiner_cli.pause_commands import ClusterArgument
from joiner_cli.rendering.standard_output import print_result
from joiner_cli.rendering.structured_output import render_json, render_yaml

DOES_NOT_ACT: Final = 2
NEVER_DEPLOYED: Final = {
    "REVIEW_IN_PROGRESS": "has not begun: a change set is not executed",
    "CREATE_FAILED": "failed",
    "ROLLBACK_IN_PROGRESS": "failed, and is being rolled back",
    "ROLLBACK_FAILED": "failed, and so did its rollback",
    "ROLLBACK_COMPLETE": "failed, and was rolled back",
}
"""What has become of the first deployment, by the status of its stack, if nothing of it runs. Source: CloudFormation
user guide, "Stack status codes"."""
EXECUTIONS: Final = "states:ListExecutions and states:DescribeExecution on the scale-up"

STATES: Final[Mapping[str, tuple[str, str]]] = {
    ACTING: ("acting", "nodes are launched and removed"),
    PAUSED: ("paused", "nothing is launched and no node is removed; to end it: joiner resume {cluster}"),
    DRAINING: (
        "draining",
        "nothing is launched and all nodes are retired (joiner uninstall); to end it: joiner resume {cluster}",
    ),
    KEEPING: (
        "stopped",
        "nothing is launched and no node is removed, and the stack may be deleted (joiner uninstall); to end it: "
        "joiner resume {cluster}",
    ),
    DELETING: (
        "stopped",
        "the deletion of the stack stopped it; if the stack is to stay: joiner resume {cluster}",
    ),
}
"""The state and its effect for each value of the parameter."""


class StatusFormat(StrEnum):
    """How the status is shown."""

    table = "table"
    json = "json"
    yaml = "yaml"


@dataclass(frozen=True, slots=True)
class JoinerStatus:
    """The status of one deployment; ``since`` is when the parameter was written, ``nodes`` are instances by their state
    in EC2, ``scale_up`` is the last execution that did something."""

    cluster: str
    region: str
    stack: str
    stack_status: str
    state: str
    effect: str
    since: datetime
    nodes: Mapping[str, int]
    scale_up: LastScaleUp | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `-o json`."""
        return {
            "cluster": self.cluster,
            "region": self.region,
            "stack": {"name": self.stack, "status": self.stack_status},
            "state": self.state,
            "effect": self.effect,
            "since": format_timestamp(self.since),
            "nodes": dict(self.nodes),
            "lastScaleUp": self.scale_up.to_json() if self.scale_up else None,
        }

    def to_table(self) -> str:
        """Return one line for each field."""
        nodes = ", ".join(f"{number} {state}" for state, number in self.nodes.items()) or "none"
        last, *pending = self.scale_up.to_lines() if self.scale_up else ["none"]
        lines = {
            "cluster": f"{self.cluster} in {self.region}",
            "stack": f"{self.stack} {self.stack_status}",
            "state": f"{self.state} since {format_timestamp(self.since)}: {self.effect}",
            "nodes": nodes,
            "last scale-up": last,
        }
        return "\n".join(
            [*(f"{name:<15}{text}" for name, text in lines.items()), *(f"{'':<15}{one}" for one in pending)]
        )


def status_command(
    cluster: ClusterArgument,
    region: Region = None,
    output: Annotated[StatusFormat, typer.Option("--output", "-o", help="How to show it.")] = StatusFormat.table,
) -> None:
    """Show whether Joiner acts or is paused, and its nodes.

    Exit code 0: Joiner acts. 2: it is paused, or being uninstalled. 1: a call to AWS failed, or no Joiner is deployed
    for the cluster.
    """
    here = DeployedStack.find(cluster, region)
    needs = f"ssm:GetParameter on {pause_parameter(cluster)}, ec2:DescribeInstances, {EXECUTIONS}"
    with aws_errors_reported(needs):
        found = _read_status(here)
    match output:
        case StatusFormat.table:
            print_result(found.to_table())
        case StatusFormat.json:
            print_result(render_json(found.to_json()))
        case StatusFormat.yaml:
            print_result(render_yaml(found.to_json()))
    raise typer.Exit(0 if found.state == STATES[ACTING][0] else DOES_NOT_ACT)


def _read_status(here: DeployedStack) -> JoinerStatus:
    if here.status in NEVER_DEPLOYED:
        exit_with_error(
            f"nothing of Joiner runs for the cluster {here.cluster}: the first deployment of the stack "
            f"{stack_name(here.cluster)} {NEVER_DEPLOYED[here.status]} ({here.status}). See its events in "
            "CloudFormation, and deploy again"
        )
    parameter = _read_parameter(here)
    value = str(parameter["Value"])
    state, effect = STATES.get(value, (value, f"this version does not know this value of {parameter['Name']}"))
    instances = Ec2(here.client("ec2", seconds=30)).instances_left_of_cluster(here.cluster)
    return JoinerStatus(
        here.cluster,
        here.region,
        stack_name(here.cluster),
        here.status,
        state,
        effect.format(cluster=here.cluster),
        parameter["LastModifiedDate"],
        dict(sorted(Counter(one.state for one in instances).items())),
        _last_scale_up(here),
    )


def _read_parameter(here: DeployedStack) -> Mapping[str, Any]:
    from botocore.exceptions import ClientError

    try:
        found: Mapping[str, Any] = here.client("ssm").get_parameter(Name=pause_parameter(here.cluster))["Parameter"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ParameterNotFound":
            exit_with_error(
                f"there is no parameter {pause_parameter(here.cluster)} in {here.region}: if the stack is deployed in "
                "this region, Joiner acts and cannot be paused: deploy it again; else name the region with --region"
            )
        raise
    return found


def _last_scale_up(here: DeployedStack) -> LastScaleUp | None:
    machine = here.outputs.get("ScaleUpArn")
    return find_last_scale_up(here.client("stepfunctions"), machine) if machine else None
