"""The queue of interruptions of a simulated cluster: messages, and the retirements that they start."""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from functions.handle_interruption import handler as handle_interruption
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.executions import Executions
from joiner.adapters.interruption_records import InterruptionWarnings
from joiner.adapters.rebalance_recommendations import Recommendations
from joiner.adapters.retirements import Retirements
from tests.unit.functions.function_loading import FUNCTIONS
from tests.unit.functions.simulated_cluster import SimulatedCluster

NOW = datetime(2026, 11, 21, 5, 17, 30, tzinfo=UTC)
BATCH: Mapping[str, Any] = json.loads((FUNCTIONS / "handle_interruption" / "event.json").read_text())
MINE = "i-0123456789abcdef0"
RETIREMENT = "retire-20261121T051730-interrupted"


class FakeRetirementStarts:
    """Executions by machine and name, in the order of their start; `ended` are names of those that have ended.

    `statuses` are those of executions that other functions started, by ARN; without one, an execution runs. `asked`
    counts the reads of each.
    """

    def __init__(self) -> None:
        self.started: list[tuple[str, str]] = []
        self.inputs: dict[str, Any] = {}
        self.ended: set[str] = set()
        self.statuses: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        self.broken: set[str] = set()

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:
        if stateMachineArn in self.broken:
            raise ClientError({"Error": {"Code": "ServiceUnavailable", "Message": ""}}, "StartExecution")
        if name in self.ended or (name in self.inputs and self.inputs[name] != json.loads(input)):
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists", "Message": name}}, "StartExecution")
        if name in self.inputs:
            return {"startDate": NOW}
        self.started.append((stateMachineArn, name))
        self.inputs[name] = json.loads(input)
        return {"startDate": NOW}

    def describe_execution(self, *, executionArn: str) -> dict[str, Any]:
        self.asked[executionArn] += 1
        status = self.statuses.get(executionArn, "RUNNING")
        if status in ("ExecutionDoesNotExist", "ThrottlingException"):
            raise ClientError({"Error": {"Code": status, "Message": ""}}, "DescribeExecution")
        return {"status": status}


class QueueRun:
    """An interruption desk over a ledger, and the effects of the messages that it got."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        module = handle_interruption
        self.cluster = cluster
        table = (cluster.ledger._client, cluster.ledger._table)
        self.retirements, self.recommendations = Retirements(*table), Recommendations(*table)
        self.warnings = InterruptionWarnings(*table)
        self.states = FakeRetirementStarts()
        memory, machines = (
            module.InterruptionRecords(cluster.ledger, self.retirements, self.recommendations, self.warnings),
            module.InterruptionMachines(scale_up="scale-up", retire="retire"),
        )
        self.handler = module.InterruptionQueue(
            memory, Executions(self.states), Ec2(cluster.ec2), cluster.pause, machines
        )
        cluster.ledger.pair(MINE, "default-a", "l-1")
        where = {"AvailabilityZone": "us-east-1a"}
        state = {"Name": "running"}
        cluster.ec2.instances[MINE] = {
            "InstanceId": MINE,
            "InstanceType": "m5.large",
            "InstanceLifecycle": "spot",
            "Placement": where,
            "State": state,
            "Tags": [],
        }

    def ended(self, state: str) -> None:
        """Make EC2 show the instance in this state, in which it runs no pods."""
        self.cluster.ec2.instances[MINE]["State"] = {"Name": state}

    def deliver(self, *bodies: Any) -> list[str]:
        records = [
            {"messageId": f"m-{index}", "body": body if isinstance(body, str) else json.dumps(body)}
            for index, body in enumerate(bodies)
        ]
        again: list[str] = self.handler.handle(records, lambda: NOW)
        return again


def warning(instance: str = MINE) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(BATCH["Records"][0]["body"])
    event["detail"]["instance-id"] = instance
    return event


def state_change(state: str, instance: str = MINE) -> dict[str, Any]:
    return {
        **warning(),
        "detail-type": "EC2 Instance State-change Notification",
        "detail": {"instance-id": instance, "state": state},
    }
