"""A cluster whose retirement machine runs on the local Step Functions, and the responses of its functions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from infra.retirement_limits import EXPRESS_LIMITS, STANDARD_LIMITS
from infra.retirement_states import RetirementResources, retirement_definition
from infra.service_integrations import ServiceIntegrations
from tests.infra.scripted_machine import Answer, Line, Scripted


def claim(name: str, reason: str = "deleted", not_before: int = 0) -> dict[str, Any]:
    return {"claim": name, "reason": reason, "instance": f"i-{name}", "notBefore": not_before}


def entry(name: str, stage: str = "draining", why: str = "") -> dict[str, Any]:
    return {
        "claim": name,
        "reason": "deleted",
        "instance": f"i-{name}",
        "node": f"node-{name}",
        "stage": stage,
        "why": why,
    }


def begins(*waves: Sequence[Mapping[str, Any]], moving: int = 0) -> Line:
    """Return a line that begins these waves; without waves, all requested retirements begin in one."""

    def line(_machines: "RetirementMachines", event: Mapping[str, Any]) -> Answer:
        begun = waves or ([entry(each["claim"]) for each in event["claims"]],)
        return {
            "refused": "",
            "waves": begun,
            "begun": sum(map(len, begun)),
            "moving": moving,
            "later": 0,
            "skipped": [],
        }

    return line


def moves(before: str, after: str, **more: Any) -> Line:
    """Return a line that moves every claim at the stage `before` to the stage `after`."""

    def line(_machines: "RetirementMachines", event: Mapping[str, Any]) -> Answer:
        return {
            "claims": [{**each, "stage": after} if each["stage"] == before else each for each in event["claims"]],
            **more,
        }

    return line


STAYS: Line = lambda _machines, event: {"claims": event["claims"], "pause": 1}  # noqa: E731 - a line of the script


SMOOTH: Mapping[str, Sequence[Line]] = {
    "begin_retirement": [begins()],
    "evict_pods": [moves("draining", "drained", pause=1)],
    "terminate_instances": [moves("drained", "terminating")],
    "confirm_termination": [moves("terminating", "terminated")],
    "forget_nodes": [moves("terminated", "forgotten")],
}


class RetirementMachines(Scripted):
    """The machines and the table of one cluster, and the inputs of its functions."""

    limits = STANDARD_LIMITS
    limits_for_empty = EXPRESS_LIMITS

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scale_up_arn = self.machine("scale-up")
        resources = RetirementResources(
            integrations=ServiceIntegrations("aws"),
            cluster=self.cluster,
            table=self.table,
            scale_up_arn=self.scale_up_arn,
            functions=self.functions,
            limits=self.limits,
        )
        self.arn = self.machine("retire", retirement_definition(resources))
        self.resources_for_empty = replace(resources, limits=self.limits_for_empty)

    def start(self, *claims: Mapping[str, Any]) -> str:
        request = json.dumps({"reason": "test", "claims": claims})
        execution: str = self.aws.client("stepfunctions").start_execution(
            stateMachineArn=self.arn, name="retire-1", input=request
        )["executionArn"]
        return execution

    def start_for_notes(self, not_before: int) -> str:
        """Start an execution as an interruption does."""
        request = json.dumps({"reason": "interruption", "claims": [], "noted": True, "notBefore": not_before, "by": ""})
        execution: str = self.aws.client("stepfunctions").start_execution(
            stateMachineArn=self.arn, name="retire-1", input=request
        )["executionArn"]
        return execution

    def ran_for_empty(self, *claims: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run an Express execution of the same states from start to end."""
        arn = self.machine("empty", retirement_definition(self.resources_for_empty), kind="EXPRESS")
        return self.ran_express(arn, {"reason": "test", "claims": claims})

    def summary(self, execution: str) -> Mapping[str, Any]:
        """Return the output of an execution that succeeds."""
        ended = self.end(execution)
        assert ended["status"] == "SUCCEEDED", (ended.get("error"), ended.get("cause"))
        summary: Mapping[str, Any] = json.loads(ended["output"])
        return summary

    def hold_the_lease(self, *, until: int) -> None:
        self.put("LEASE", "scale-up", holder="arn", leaseUntil=until, leaseNumber=3, rings=3)

    @property
    def scale_ups(self) -> list[str]:
        return list(self.started(self.scale_up_arn))
