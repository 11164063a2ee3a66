"""The command `joiner explain node`: why Joiner removes a node, or why it stays.

It only reads: the stack, the proposals in the decision bucket, and the executions of DISRUPT that chose the node.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from joiner_cli.deployed_stack import Cluster, DeployedStack, Region, aws_errors_reported, commentary, exit_with_error
from joiner_cli.rendering.standard_output import print_result
from joiner_cli.rendering.structured_output import render_json, render_yaml

if TYPE_CHECKING:  # the module loads the planner's values, which other commands do not need
    from joiner_cli.node_decisions import DecisionBucket, DecisionsOfNode

NOT_FOUND: Final = 2
MOST_HOURS: Final = 24.0 * 365


class DecisionFormat(StrEnum):
    """How the decisions are shown."""

    table = "table"
    json = "json"
    yaml = "yaml"


def explain_node_command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The Node or its NodeClaim; the NodeClaim if it is gone.")
    ],
    cluster: Cluster,
    region: Region = None,
    hours: Annotated[
        float, typer.Option(metavar="NUMBER", min=0.1, max=MOST_HOURS, help="How far back to read.")
    ] = 24.0,
    output: Annotated[DecisionFormat, typer.Option("--output", "-o", help="How to show it.")] = DecisionFormat.table,
) -> None:
    """Show why a node was chosen for consolidation or replacement, where its pods went and what it saved, or why the
    node stays.

    Exit code 0: there are decisions about the node. 2: there are none in this time. 1: a call to AWS failed, or no
    Joiner is deployed for the cluster.
    """
    from joiner_cli.node_decisions import DecisionBucket, Outcomes, find_decisions

    here = DeployedStack.find(cluster, region)
    if "BucketName" not in here.outputs:
        exit_with_error(f"the stack of the cluster {cluster} has no decision bucket yet: its status is {here.status}")
    needs = "s3:ListBucket and s3:GetObject on the decision bucket, and states:DescribeExecution on the disruptions"
    with aws_errors_reported(needs):
        bucket = DecisionBucket(here.client("s3"), here.outputs["BucketName"])
        stored = bucket.read_since(datetime.now(UTC) - timedelta(hours=hours))
        found = find_decisions(name, stored, Outcomes(here.client("stepfunctions"), here.outputs["DisruptArn"]))
    _print_commentary(here, bucket, found, name, f"the {len(stored)} proposals of the last {hours:g} hours")
    document = _to_json(found, name)
    match output:
        case DecisionFormat.table:
            if found.decisions:
                print_result("\n".join(_table(found)))
        case DecisionFormat.json:
            print_result(render_json(document))
        case DecisionFormat.yaml:
            print_result(render_yaml(document))
    raise typer.Exit(0 if found.decisions else NOT_FOUND)


def _print_commentary(
    here: DeployedStack, bucket: "DecisionBucket", found: "DecisionsOfNode", name: str, read: str
) -> None:
    if unreadable := sorted(bucket.unreadable):
        commentary.print(
            f"warning: {len(unreadable)} proposals in the bucket {here.outputs['BucketName']} cannot be read and are "
            f"left out, {unreadable[0]} is the first one: another version of Joiner wrote them, or they are damaged"
        )
    if not found.decisions:
        commentary.print(
            f"joiner: none of {read} names {name}: check the name (of the NodeClaim if the node is gone), or read "
            "further back with --hours. Empty, expired and interrupted nodes are removed without a proposal: their "
            "events and RETIRE executions show why"
        )


def _to_json(found: "DecisionsOfNode", name: str) -> dict[str, Any]:
    return {
        "name": name,
        "nodeClaims": list(found.claims),
        "nodes": list(found.nodes),
        "decisions": [one.to_json() for one in found.decisions],
    }


def _table(found: "DecisionsOfNode") -> list[str]:
    names = [f"NodeClaim {', '.join(found.claims)}", *([f"Node {', '.join(found.nodes)}"] if found.nodes else [])]
    return ["; ".join(names), *(line for one in found.decisions for line in one.to_lines())]
