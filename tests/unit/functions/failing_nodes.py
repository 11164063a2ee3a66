"""A cluster whose nodes do not become ready, over hours: the test decides when their waves are checked."""

from datetime import datetime, timedelta
from typing import Any

from joiner.adapters import documents
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import list_claims
from joiner.catalogue import Catalogue
from joiner.cluster import Resources
from joiner.lifecycle.failed_claims import failure_reason
from joiner.lifecycle.node_deadlines import REGISTRATION_MINUTES
from joiner.pools import NodeClaim
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.functions.small_account import NODEPOOL, offering_type, pending

GPU = "nvidia.com/gpu"
WITH_GPUS = Catalogue.of(
    [offering_type("m5.large", 2, 0.096, more=Resources({GPU: 1})), offering_type("m5.xlarge", 4, 0.1925)]
)
"""It promises a GPU that no node registers."""

MINUTE = timedelta(minutes=1)


class FailingNodes(SimulatedCluster):
    """A cluster in which instances do not boot unless a test boots them."""

    def begin(self, *objects: dict[str, Any], gpus: bool = False) -> "FailingNodes":
        """Prepare the cluster, and let the first sweep launch nodes for the pods of these objects."""
        self.boots = False
        self.launches: list[datetime] = []
        self.waves: list[str] = []
        self._sweeps = 0
        self.prepare(*(objects or [pending("web-1")]))
        if gpus:
            documents.put_catalogue(self.store, WITH_GPUS, self.now)
        self.sweep_now()
        return self

    def _await_nodes(self, name: str) -> None:
        """Check the nodes once, by which the events are written; the test decides when they are checked again."""
        self.check(name)

    def sweep_now(self) -> None:
        """Run a sweep, with the scale-up that it starts, which goes on to wait for its nodes."""
        before, name = len(self.ec2.instances), f"up-{self._sweeps}"
        self._sweeps += 1
        self.sweep(name)
        self.dead.discard(arn(name))
        if len(self.ec2.instances) > before:
            self.launches.append(self.now)
            self.waves.append(name)

    def check_waves(self) -> None:
        for name in self.waves:
            self.check(name)

    def pass_minutes(self, number: int) -> None:
        """Let minutes pass; after each, the waves are checked, and the sweep comes a second later."""
        for _ in range(number):
            self.now += MINUTE - timedelta(seconds=1)
            self.check_waves()
            self.now += timedelta(seconds=1)
            self.sweep_now()

    def fail_nodes(self) -> None:
        """Let the newest nodes fail at their deadline; the sweep a second later finds their pods."""
        self.now = self.launches[-1] + timedelta(minutes=REGISTRATION_MINUTES, seconds=1)
        self.check_waves()
        self.now += timedelta(seconds=1)
        self.sweep_now()

    def minutes_to_next_launch(self) -> int:
        """Let minutes pass until a node is launched; return their number, 0 if one was launched at once."""
        known = [at for at in self.launches if at < self.now]
        for minute in range(60):
            if len(self.launches) > len(known):
                return minute
            self.pass_minutes(1)
        raise AssertionError("no node was launched in an hour")

    def boot_newest(self) -> None:
        """Let the instances whose claims were not given up join as Ready nodes, and check the newest wave."""
        every = self.ec2.instances
        good = [claim.instance_id for claim in self.claims() if not failure_reason(claim)]
        self.ec2.instances = {each: every[each] for each in good}
        self.boots = True
        self.boot()
        self.boots = False
        self.ec2.instances = every
        self.check(self.waves[-1])

    def claims(self) -> list[NodeClaim]:
        """Return all claims, those that were launched last at the end."""
        return sorted(list_claims(self.kube).claims, key=lambda claim: str(claim.conditions["Launched"].since))

    def notes(self, kind: str) -> list[str]:
        """Return the notes of the events on objects of a kind."""
        return [each["note"] for each in self.kube.all(kinds.EVENTS) if each["regarding"]["kind"] == kind]

    def notes_of_pod(self, name: str) -> list[str]:
        """Return the notes of the events that say why a pod waits."""
        events = [each for each in self.kube.all(kinds.EVENTS) if each["regarding"]["kind"] == "Pod"]
        return [each["note"] for each in events if each["regarding"]["name"] == name and each["type"] == "Warning"]


def with_gpu(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the pod with a request for a GPU."""
    requests = {**pod["spec"]["containers"][0]["resources"]["requests"], GPU: "1"}
    container = {"name": "main", "resources": {"requests": requests, "limits": {GPU: "1"}}}
    return {**pod, "spec": {"containers": [container]}}


def pool(name: str, *, weight: int = 1) -> dict[str, Any]:
    """Return a pool of the same class."""
    spec = {**NODEPOOL["spec"], "weight": weight}
    return {**NODEPOOL, "metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}
