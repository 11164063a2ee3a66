"""A cluster whose disruption machine runs on the local Step Functions, and the responses of its functions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from infra.disruption_states import DisruptionResources, disruption_definition
from infra.machine_functions import DISRUPTION, SCALE_UP_FUNCTIONS_OF_DISRUPTION
from infra.service_integrations import ServiceIntegrations
from tests.infra.scripted_machine import Line, Scripted, ScriptedAccount, scripted_account
from tests.local.running_aws import RunningAws

FOUND = {"refused": "", "why": "", "rings": 0, "snapshot": "snapshots/x/1.json.gz", "candidates": 2}
NOTHING_TO_DO = {"actions": 0, "replacements": 0, "remaining": 0, "proposal": "decisions/x/1.json.gz", "messages": []}
PROPOSED = {**NOTHING_TO_DO, "actions": 1, "messages": ["a: saves $0.10/h"]}
MARKED = {
    "plan": "",
    "marked": [{"reason": "Underutilized", "claims": ["a"]}],
    "replacements": 0,
    "dropped": [],
}
REQUEST = {"claim": "a", "reason": "consolidated", "instance": "i-a", "notBefore": 0}
SETTLED = {"retire": [], "waiting": 0, "requested": 0, "undone": [], "finished": 0}
JOINED = {
    "rings": 0,
    "done": True,
    "waiting": 0,
    "registered": 1,
    "initialized": 1,
    "joining": 0,
    "postponed": 0,
    "settling": 0,
}
BOOTING = {**JOINED, "done": False, "waiting": 1, "registered": 0, "initialized": 0}

SMOOTH: Mapping[str, Sequence[Line]] = {
    "find_candidates": [FOUND],
    "resolve_node_classes": [{"classes": "node-classes/x/1.json.gz", "ready": 1, "refused": 0}],
    "propose_disruption": [PROPOSED],
    "report_candidates": [{"conditions": 1, "events": 0}],
    "mark_nodes": [MARKED],
    "settle_disruptions": [{**SETTLED, "retire": [REQUEST]}],
    "record_node_claims": [
        {"launches": "launches/x/2.json.gz", "groups": [0], "claims": 1, "postponed": 0, "events": ["events/x/2-p"]}
    ],
    "launch_instances": [{"launched": 1, "short": 0, "failed": 0, "errors": []}],
    "record_launches": [
        {"launched": 1, "short": 0, "failed": 0, "waiting": 1, "again": False, "later": False, "events": []}
    ],
    "check_registration": [JOINED],
}


@contextmanager
def disruption_account(aws: RunningAws) -> Iterator[ScriptedAccount["DisruptionMachines"]]:
    """Run the functions in the local AWS. Waits are short, because pods settle for 15 s in each execution."""
    names = (*DISRUPTION, *SCALE_UP_FUNCTIONS_OF_DISRUPTION)
    with scripted_account(DisruptionMachines, names, SMOOTH, aws) as made:
        aws.knob("faults/pace", factor=0.1)
        try:
            yield made
        finally:
            aws.knob("faults/pace", factor=1)


class DisruptionMachines(Scripted):
    """The machine and the table of one cluster, and the inputs of its functions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scale_up_arn, self.retire_arn = self.machine("scale-up"), self.machine("retire")
        self.resources = DisruptionResources(
            integrations=ServiceIntegrations("aws"),
            cluster=self.cluster,
            table=self.table,
            scale_up_arn=self.scale_up_arn,
            retire_arn=self.retire_arn,
            functions=self.functions,
        )
        self.arn = self.machine("disrupt", disruption_definition(self.resources))

    def await_alone_for(self, seconds: int) -> None:
        """Let the next execution give its turn back so long after it launched replacements."""
        self.arn = self.machine("disrupt", disruption_definition(self.resources, awaited_alone=seconds))

    def start(self, name: str = "disrupt-1", *, left: Sequence[str] = (), stale: int = 0, **more: Any) -> str:
        request = json.dumps({"digest": "abc", "left": left, "staleMarks": stale, **more})
        execution: str = self.aws.client("stepfunctions").start_execution(
            stateMachineArn=self.arn, name=name, input=request
        )["executionArn"]
        return execution

    def summary(self, execution: str) -> Mapping[str, Any]:
        """Return the output of an execution that succeeds, and gives back what it took."""
        ended = self.end(execution)
        assert ended["status"] == "SUCCEEDED", (ended.get("error"), ended.get("cause"))
        assert "holder" not in self.item("LEASE", "disrupt")
        assert "holder" not in self.lease
        summary: Mapping[str, Any] = json.loads(ended["output"])
        return summary

    def retired(self) -> list[Any]:
        """Return the claims of each retirement that the machine started."""
        return [request["claims"] for request in self.started(self.retire_arn).values()]
