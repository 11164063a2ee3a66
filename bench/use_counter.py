"""Counts what a deployed stack uses between two moments, from the reports of the local AWS."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from bench.benchmark_stack import deployed_stack
from bench.billed_use import Use
from bench.lambda_reports import reports, service_names
from bench.lifecycle import BOOT_SECONDS, POOL, pod
from infra.machine_functions import KEPT_WARM
from joiner.item_keys import BACKOFF, DRIFT, LAST_DETECTION, OF_VALIDATIONS, item_key
from joiner.names import WARM_UP
from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import instances, until
from joiner_local.demo.demonstration import DemoStack
from joiner_local.stack.stack_control import LocalStack

WRITES: Final = frozenset({"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"})
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
APP: Final = "one-a-node"
EMPTY_SECONDS: Final = 1


def manifests() -> list[Object]:
    """Return a pool of one type whose empty nodes are removed immediately, and a deployment whose pods fill a node
    each."""
    pool, template = (dict(each) for each in POOL)
    pool["spec"] = {**pool["spec"], "ttlSecondsAfterEmpty": EMPTY_SECONDS}
    labels = {"app": APP}
    template_of_pods: Object = {"metadata": {"labels": labels}, "spec": pod(APP)["spec"]}
    deployment: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": APP, "namespace": "default"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template_of_pods},
    }
    return [pool, template, deployment]


class Counter:
    """A deployed stack whose use is counted between two moments."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self.deployed = DemoStack.of(stack)
        self.outputs = stack.outputs()

    def of(self, act: Any) -> Use:
        """Return what `act` used, from one idle state to the next."""
        self._rest()
        self.stack.knob("accounts", {"reset": True})
        began, before = time.time(), self._transitions()
        act()
        return self._used(began, before)

    def _used(self, began: float, before: int) -> Use:
        calls: Mapping[str, Mapping[str, int]] = self.stack.knob("accounts", {})["calls"]
        items, documents = calls.get("dynamodb", {}), calls.get("s3", {})
        reported = list(reports(self.stack.client("lambda"), self.stack.client("logs"), began))
        express = [each for each in (*self.sweeps(), *self._retirements_of_empty()) if each["startDate"] >= began]
        return Use(
            transitions=self._transitions() - before,
            express=len(express),
            express_seconds=sum(each["stopDate"] - each["startDate"] for each in express),
            calls=len(reported),
            gb_seconds=sum(report.gb_seconds for report in reported),
            doorbell=sum(report.function == "ring_doorbell" for report in reported),
            writes=sum(times for action, times in items.items() if action in WRITES),
            reads=sum(times for action, times in items.items() if action not in WRITES),
            s3_writes=documents.get("PUT", 0),
            s3_reads=documents.get("GET", 0),
        )

    def sweeps(self) -> Sequence[Mapping[str, Any]]:
        """Return the sweeps that have ended."""
        return self._ended("SweepArn")

    def _retirements_of_empty(self) -> Sequence[Mapping[str, Any]]:
        """Return the retirements of empty nodes. Raise RuntimeError if one failed: it would cost little and remove no
        node."""
        found = self._ended("RetireEmptyArn")
        if failed := [
            f"{each['name']}: {each.get('error')} {each.get('cause')}"
            for each in found
            if each["status"] != "SUCCEEDED"
        ]:
            raise RuntimeError(f"retirements of empty nodes failed: {'; '.join(failed)}")
        return found

    def _ended(self, output: str) -> Sequence[Mapping[str, Any]]:
        response = self.stack.knob("express-executions", {"stateMachineArn": self.outputs[output]})
        executions: Sequence[Mapping[str, Any]] = [
            each for each in response["executions"] if each["status"] != "RUNNING"
        ]
        return executions

    def _transitions(self) -> int:
        """Return the transitions of all executions of the Standard state machines so far."""
        client, count = self.deployed.client("stepfunctions"), 0
        for machine in (self.outputs["ScaleUpArn"], self.outputs["RetireArn"], self.outputs["DisruptArn"]):
            listed = [
                e
                for page in client.get_paginator("list_executions").paginate(stateMachineArn=machine)
                for e in page["executions"]
            ]
            for execution in listed:
                pages = client.get_paginator("get_execution_history").paginate(executionArn=execution["executionArn"])
                count += sum(event["type"].endswith("StateEntered") for page in pages for event in page["events"])
        return count

    # what is counted

    def scale_up(self, replicas: int, *, limit: float = 300) -> None:
        """Scale up, and wait until all pods run, at most `limit` seconds, and every execution has ended."""
        self.deployed.kube.merge(f"{DEPLOYMENTS}/{APP}", {"spec": {"replicas": replicas}})
        until(lambda: self._running() == replicas, what=f"{replicas} running pods", limit=limit)
        self._rest()

    def scale_down(self) -> None:
        """Scale down, and wait until no instance is left and every execution has ended; the sweep is started until it
        finds nothing to do."""
        self.deployed.kube.merge(f"{DEPLOYMENTS}/{APP}", {"spec": {"replicas": 0}})
        until(lambda: self._running() == 0, what="no pod", limit=120)
        for _ in range(20):
            self.sweep()
            self._rest()
            if not instances(self.deployed.client("ec2"), alive=True):
                return
            time.sleep(EMPTY_SECONDS)
        raise RuntimeError("nodes stay that hold nothing")

    def sweep(self) -> None:
        """Run one sweep to its end."""
        known = len(self.sweeps())
        self.stack.knob("schedules/fire", {"name": self.outputs["SweepScheduleName"]})
        until(lambda: len(self.sweeps()) > known, what="the sweep's end", limit=120)

    def warm_up(self) -> None:
        """Invoke the functions that sweeps keep warm, as a sweep does."""
        client = self.stack.client("lambda")
        for name, service in service_names(client).items():
            if service in KEPT_WARM:
                version = client.list_versions_by_function(FunctionName=name)["Versions"][-1]["Version"]
                client.invoke(FunctionName=name, Qualifier=version, Payload=json.dumps({WARM_UP: True}))

    def sweep_and_rest(self) -> None:
        """Run one sweep, and what it starts."""
        self.sweep()
        self._rest()

    def settle(self, sweep: Use) -> tuple[Use, Use]:
        """Run sweeps until one starts no scale-up; return what the scale-ups used, and what the last sweep started: a
        DISRUPT execution if there are nodes. `sweep` is an idle one.
        """
        settling, known = Use(), self._scale_ups()
        while True:
            found = self.of(self.sweep_and_rest) + sweep * -1
            if (now := self._scale_ups()) == known:
                return settling, found
            settling, known = settling + found, now

    def detect_drift(self) -> None:
        """Run one sweep that detects drift, as if the last detection were five minutes old."""
        table, key = self.outputs["TableName"], item_key(DRIFT, LAST_DETECTION)
        self.deployed.client("dynamodb").delete_item(TableName=table, Key=key)
        self.sweep_and_rest()

    def validate_classes(self) -> None:
        """Run one sweep that detects drift and tries the launches of the node class, as if both were due."""
        client, table = self.deployed.client("dynamodb"), self.outputs["TableName"]
        asked = {":kind": {"S": BACKOFF}, ":prefix": {"S": OF_VALIDATIONS}}
        condition = "kind = :kind AND begins_with(id, :prefix)"
        found = client.query(TableName=table, KeyConditionExpression=condition, ExpressionAttributeValues=asked)
        for item in found["Items"]:
            client.delete_item(TableName=table, Key={"kind": item["kind"], "id": item["id"]})
        self.detect_drift()

    def _scale_ups(self) -> int:
        pages = self.deployed.client("stepfunctions").get_paginator("list_executions")
        return sum(len(page["executions"]) for page in pages.paginate(stateMachineArn=self.outputs["ScaleUpArn"]))

    def _running(self) -> int:
        pods = self.deployed.kube.items(f"/api/v1/namespaces/default/pods?labelSelector=app%3D{APP}")
        return sum(pod["status"].get("phase") == "Running" for pod in pods)

    def _rest(self) -> None:
        until(
            lambda: not self.stack.knob("running-executions", {})["executions"], what="every execution's end", limit=300
        )


@contextmanager
def counted_stack() -> Iterator[Counter]:
    """Start a stack with `manifests`, whose functions are warm and whose pools have a current status; end it after the
    block."""
    with deployed_stack(BOOT_SECONDS, swept=False) as stack:
        counter = Counter(stack)
        stack.kube().apply_manifests(manifests())
        counter.sweep()
        yield counter
