"""The sweep's state machine with scripted functions, and their answers in a cluster at rest."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from infra.machine_functions import SCALE_UP_FUNCTIONS_OF_SWEEP, SWEEP
from infra.service_integrations import ServiceIntegrations
from infra.sweep_states import SweepResources, WarmUp, sweep_definition
from tests.infra.scripted_machine import Line, Scripted, ScriptedAccount, scripted_account
from tests.local.running_aws import RunningAws

RESTING = {"due": False, "digest": "abc", "executions": [], "staleMarks": 0}
DISRUPTION_DUE = {**RESTING, "due": True}
NOTHING_SEEN = {
    "refused": "",
    "pendingPods": 0,
    "changedBuffers": 0,
    "buffersToPlan": 0,
    "unwatchedClaims": 0,
    "missingReplicas": 0,
    "unlaunchedClaims": 0,
    "staleClaims": 0,
    "closedNodes": 0,
    "retire": [],
    "emptyLater": 0,
    "disruption": {"due": False, "digest": "", "executions": [], "staleMarks": 0},
    "drift": {"due": False, "digest": "", "snapshot": ""},
    "survey": "surveys/x.json.gz",
    "reasons": [],
}
ALL_THERE = {
    "instances": 3,
    "described": "",
    "endedWaves": 0,
    "leaseBroken": False,
    "openLaunches": 0,
    "disrupting": False,
    "leftDisruptions": [],
    "endedRetirements": 0,
    "retire": [],
    "garbage": [],
    "rebuild": [],
    "refused": 0,
    "reasons": [],
}
EMPTY = {"claim": "a", "reason": "empty", "instance": "i-a", "notBefore": 1795238278}
LOST = {"claim": "b", "reason": "lost", "instance": "i-b", "notBefore": 0}
BARE = {"instance": "i-c", "node": "node-c", "claim": "c"}
QUIET: Mapping[str, Sequence[Line]] = {
    "survey_cluster": [NOTHING_SEEN],
    "survey_instances": [ALL_THERE],
    "collect_garbage": [{"terminated": ["i-x"], "refused": 0, "reasons": [], "left": 0}],
    "rebuild_claims": [{"rebuilt": ["c"], "left": []}],
    "resolve_node_classes": [{"classes": "node-classes/s/1.json.gz", "ready": 1, "refused": 0, "validation": ""}],
    "launch_instances": [{"validated": 1, "refused": 0, "changed": 0}],
    "detect_drift": [{"drifted": 1, "changed": 1, "stamped": 0, "notCompared": 0, "reasons": []}],
}

NO_WARM_UPS = WarmUp(("arn:first", "arn:second"), every_minutes=None, sweep_minutes=1)
"""No sweep invokes these functions."""


@contextmanager
def sweep_account(aws: RunningAws) -> Iterator[ScriptedAccount[Scripted]]:
    """Run the functions of the sweep in the local AWS."""
    with scripted_account(Scripted, (*SWEEP, *SCALE_UP_FUNCTIONS_OF_SWEEP), QUIET, aws) as made:
        yield made


class Swept:
    """One cluster's machine, and the executions that it started."""

    def __init__(
        self, account: ScriptedAccount[Scripted], warm_up: WarmUp | None = None, /, **scripts: Sequence[Line]
    ) -> None:
        self.machines = account.machines(**scripts)
        self.scale_up, self.retire, self.empty, self.disrupt, self.again = (
            self.machines.machine(name) for name in ("scale-up", "retire", "empty", "disrupt", "again")
        )
        resources = SweepResources(
            integrations=ServiceIntegrations("aws"),
            cluster=self.machines.cluster,
            scale_up_arn=self.scale_up,
            retire_arn=self.retire,
            retire_empty_arn=self.empty,
            disrupt_arn=self.disrupt,
            sweep_arn=self.again,
            table=self.machines.table,
            functions=account.functions,
            warm_up=warm_up or NO_WARM_UPS,
        )
        self.arn = self.machines.machine("sweep", sweep_definition(resources), kind="EXPRESS")

    def run(self, **request: Any) -> Mapping[str, Any]:
        ended = self.machines.ran_express(self.arn, request)
        assert "holder" not in self.machines.item("LEASE", "sweep"), "whichever way a sweep ends, the next one may look"
        return ended

    @property
    def started(self) -> tuple[int, int, int]:
        """Return the number of scale-ups, retirements, and retirements of empty nodes."""
        return (
            len(self.machines.started(self.scale_up)),
            len(self.machines.started(self.retire)),
            len(self.machines.started(self.empty)),
        )
