"""From a Spot interruption warning to the first eviction and to the fleet request of the replacement.

A deployment with one pod a node runs on Spot Instances. One instance after another gets a warning, as EventBridge sends
it; the times are seen from outside: the end of its pod at the API server, and the entry of *Launch one group* in the
history of SCALE UP. `bench.lifecycle` prints the table.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from joiner_local.demo.demonstration import DemoStack
from joiner_local.stack.stack_control import LocalStack

APP: Final = "interrupted"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
PODS: Final = f"/api/v1/namespaces/default/pods?labelSelector=app%3D{APP}"
POLL: Final = 0.02
GRACE: Final = 120
EVICTED: Final = "first eviction"
REQUESTED: Final = "fleet request sent"
STAGES: Final = (EVICTED, REQUESTED)
LAUNCH: Final = "Launch one group"

SPOT_POOL: Final[Sequence[Object]] = (
    {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": APP},
        "spec": {
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5a.large"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            ],
            "labels": {"bench": APP},
            "providerRef": {"name": "bench"},
        },
    },
)


def one_pod_a_node(replicas: int) -> Object:
    """Return a deployment whose pods fill a node each."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1500m"}}}
    pod = {
        "containers": [container],
        "nodeSelector": {"bench": APP},
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
    }
    template = {"metadata": {"labels": {"app": APP}}, "spec": pod}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": APP}}, "template": template}
    metadata = {"name": APP, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


class SpotWarnings:
    """A deployed stack whose Spot Instances are interrupted one after another."""

    def __init__(self, stack: LocalStack) -> None:
        self._deployed = DemoStack.of(stack)

    def run(self, warnings: int) -> list[dict[str, float]]:
        """Return the seconds from each warning to each stage."""
        kube = self._deployed.kube
        kube.apply_manifests(SPOT_POOL)
        kube.apply_manifests([one_pod_a_node(warnings)])
        self._wait_running(warnings)
        found = [self._interrupt(pod) for pod in self._pods()[:warnings]]
        kube.delete(f"{DEPLOYMENTS}/{APP}")
        return found

    def _interrupt(self, pod: Object) -> dict[str, float]:
        """Interrupt the node of a pod, wait until its successor runs, and return the times."""
        node = self._deployed.kube.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
        instance = node["spec"]["providerID"].rpartition("/")[2]
        uid, wanted = pod["metadata"]["uid"], len(self._pods())
        times: dict[str, float] = {}
        watcher = threading.Thread(target=self._await_eviction, args=(uid, times), daemon=True)
        warned = time.time()
        watcher.start()
        self._deployed.knob("interrupt", instanceId=instance, grace=GRACE)
        watcher.join(60)
        self._wait_running(wanted)
        times |= {REQUESTED: min(self._launches_since(warned), default=float("inf"))}
        return {stage: at - warned for stage, at in times.items()}

    def _await_eviction(self, uid: str, times: dict[str, float]) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if uid not in {pod["metadata"]["uid"] for pod in self._pods()}:
                times[EVICTED] = time.time()
                return
            time.sleep(POLL)

    def _pods(self) -> list[Object]:
        return [pod for pod in self._deployed.kube.items(PODS) if "deletionTimestamp" not in pod["metadata"]]

    def _wait_running(self, wanted: int) -> None:
        def ready() -> bool:
            pods = self._pods()
            running = sum(pod["status"].get("phase") == "Running" for pod in pods)
            return running == len(pods) == wanted and not self._deployed.knob("running-executions")["executions"]

        until(ready, what=f"{wanted} running pods and no execution", limit=180)

    def _launches_since(self, at: float) -> list[float]:
        """Return when executions sent fleet requests."""
        client = self._deployed.client("stepfunctions")
        listed = client.list_executions(stateMachineArn=self._deployed.scale_up_arn)["executions"]
        found: list[float] = []
        for execution in (each for each in listed if each["startDate"].timestamp() > at - 1):
            pages = client.get_paginator("get_execution_history").paginate(executionArn=execution["executionArn"])
            events: list[Mapping[str, Any]] = [event for page in pages for event in page["events"]]
            found += [
                event["timestamp"].timestamp()
                for event in events
                if event.get("stateEnteredEventDetails", {}).get("name") == LAUNCH
            ]
        return [moment for moment in found if moment > at]
