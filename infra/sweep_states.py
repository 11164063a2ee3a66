"""SWEEP, state by state: the minute's look at the cluster and at EC2, which starts what is due.

It starts nothing itself from a function: a function in a VPC could not, and here everybody sees why something was started. Like every
other ringer it counts its ring first: a holder whose lease the new execution finds taken looks again before it lets go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from infra.states import EVERY_ERROR, STARTED_BEFORE, Callee, Catch, Integrations, State, Task, choice, fail, jsonata, machine, succeed

SWEEP_SECONDS: Final = 240
"""Express executions end after five minutes at the latest."""

DUE: Final = """$cluster_survey.pendingPods > 0 or $cluster_survey.unwatchedClaims > 0 or $cluster_survey.staleClaims > 0
  or $cluster_survey.closedNodes > 0
  or $instance_survey.leaseBroken or $instance_survey.deadWaves > 0 or $instance_survey.openLaunches > 0"""


@dataclass(frozen=True, slots=True)
class SweepParts:
    """What the machine is made of besides its states."""

    integrations: Integrations
    cluster: str
    scale_up_arn: str
    table: str
    functions: Mapping[str, Callee]


def sweep(parts: SweepParts) -> State:
    """The whole machine."""
    failing = [Catch([EVERY_ERROR], "The sweep failed")]
    states: Mapping[str, State] = {
        "Describe the cluster": parts.integrations.describe_cluster(
            parts.cluster, next="Survey the cluster", assign={"turn": 1}, catch=failing
        ),
        "Survey the cluster": parts.integrations.invoke(
            parts.functions["survey_cluster"],
            {},
            next="Survey the instances",
            assign={"cluster_survey": jsonata("$states.result.Payload")},
            catch=failing,
        ),
        "Survey the instances": parts.integrations.invoke(
            parts.functions["survey_instances"],
            {},
            next="Decide what is due",
            assign={"instance_survey": jsonata("$states.result.Payload")},
            catch=failing,
        ),
        "Decide what is due": choice({DUE: "Ring"}, otherwise="Nothing is due"),
        "Ring": Task(
            resource=parts.integrations.service("dynamodb:updateItem"),
            arguments={
                "TableName": parts.table,
                "Key": {"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}},
                "UpdateExpression": "ADD rings :one",
                "ExpressionAttributeValues": {":one": {"N": "1"}},
            },
            timeout=10,
            next="Start it",
            catch=failing,
        ).render(),
        "Start it": Task(
            resource=parts.integrations.service("states:startExecution"),
            arguments={
                "StateMachineArn": parts.scale_up_arn,
                "Name": jsonata("'up-' & $now('[Y0001][M01][D01]T[H01][m01][s01]') & '-sweep'"),
                "Input": {"reason": "sweep", "reasons": jsonata("[$cluster_survey.reasons, $instance_survey.reasons]")},
            },
            timeout=10,
            next="A scale-up is on its way",
            catch=[Catch(STARTED_BEFORE, "A scale-up is on its way"), *failing],
        ).render(),
        "A scale-up is on its way": succeed(),
        "Nothing is due": succeed({"cluster": jsonata("$cluster_survey"), "instances": jsonata("$instance_survey")}),
        "The sweep failed": fail(),
    }
    return machine(states, comment="The minute's look at the cluster and at EC2", timeout=SWEEP_SECONDS)
