"""The state machine of scale-ups on the local Step Functions, and answers of its functions in a run without errors."""

from collections.abc import Mapping, Sequence
from typing import Any

from infra.machine_resources import MachineResources
from infra.scale_up_states import scale_up_definition
from infra.service_integrations import ServiceIntegrations
from tests.infra.scripted_machine import Answer, Line, Scripted

FOUND = {
    "refused": "",
    "complete": True,
    "gathering": {"waited": 1, "pods": 3, "idle": 0},
    "snapshot": "snapshots/x/1.json.gz",
    "pods": 3,
    "podsToPlan": 3,
    "unfinished": 0,
    "unwatched": 0,
}

NOTHING = {**FOUND, "pods": 0, "podsToPlan": 0}

PLANNED = {
    "plan": "plans/x/1.json.gz",
    "nodes": 1,
    "pods": 3,
    "pricePerHour": 0.1,
    "lowerBoundPerHour": 0.1,
    "gap": 0.0,
    "pendingReasons": [],
}

LAUNCHED = {"launched": 1, "short": 0, "failed": 0, "errors": []}

RECORDED = {
    "launched": 1,
    "short": 0,
    "failed": 0,
    "again": False,
    "later": False,
    "throttled": False,
    "launching": False,
    "waiting": 1,
    "pricePerHour": 0.1,
}

JOINED = {
    "rings": 0,
    "done": True,
    "waiting": 0,
    "joining": 0,
    "postponed": 0,
    "settling": 0,
    "podsPlaced": 3,
    "placedAsPlanned": 1,
    "nodes": [{"name": "n"}],
    "failed": [],
}

SMOOTH: Mapping[str, Sequence[Line]] = {
    "find_pending_pods": [FOUND],
    "resolve_node_classes": [{"classes": "node-classes/x/1.json.gz", "ready": 1, "refused": 0}],
    "plan_capacity": [PLANNED],
    "record_node_claims": [{"launches": "launches/x/1.json.gz", "groups": [0], "claims": 1, "postponed": 0}],
    "launch_instances": [LAUNCHED],
    "record_launches": [RECORDED],
    "check_registration": [JOINED],
}

UNDER_THE_LEASE = [
    "Read the pause",
    "Is Joiner paused?",
    "Describe the cluster",
    "Take the lease",
    "Find pending pods",
    "Is there anything to do?",
    "Resolve node classes",
    "Plan capacity",
    "Record node claims",
    "Are there several launches?",
    "Launch one group",
    "Record launches",
    "Did offerings turn out short?",
    "Release the lease",
]

TO_THE_END = ["Check registration", "Have all nodes joined?", "Summarise"]


class ScaleUpMachine(Scripted):
    """The machine and the table of one cluster, and the inputs of its functions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scripts = {
            **self.scripts,
            "find_pending_pods": [noting_rings(line) for line in self.scripts["find_pending_pods"]],
        }
        resources = MachineResources(
            integrations=ServiceIntegrations("aws"), cluster=self.cluster, table=self.table, functions=self.functions
        )
        self.arn = self.machine("scale-up", scale_up_definition(resources))

    def start(self, name: str = "up-1") -> str:
        execution: str = self.aws.client("stepfunctions").start_execution(
            stateMachineArn=self.arn, name=name, input="{}"
        )["executionArn"]
        return execution

    def others(self, execution: str) -> list[str]:
        """Return the executions that another execution started."""
        listed = self.aws.client("stepfunctions").list_executions(stateMachineArn=self.arn)["executions"]
        return [each["name"] for each in listed if each["executionArn"] != execution]


def noting_rings(line: Line) -> Line:
    """Return a line that adds the rings, as functions that read pods do; a line with an effect adds them itself."""
    return (lambda machines, _event: {**line, "rings": machines.rings()}) if isinstance(line, Mapping) else line


def ringing(then: Answer | str) -> Line:
    """Return a line that rings the doorbell while the function runs."""

    def line(machines: ScaleUpMachine, _event: Mapping[str, Any]) -> Answer | str:
        machines.ring()
        return then

    return line
