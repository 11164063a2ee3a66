"""What end-to-end tests do and observe: Deployments, executions and their states, and waiting until no execution runs.

They use only the API server and the AWS APIs; this module does not import Joiner.
"""

import base64
import gzip
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import yaml

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import WatchTimeout, instances, until
from joiner_local.demo.demonstration import DemoStack
from joiner_local.stack.stack_control import REPOSITORY
from tests.e2e.cluster_history import ClusterRecorder
from tests.e2e.disruption_rules import DisruptionJudge, Strike
from tests.e2e.forced_deletion import force_delete
from tests.e2e.stack_invariants import CLAIM_PATHS, failed_executions, violations

SCENARIOS: Final = REPOSITORY / "examples" / "scenarios"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
WORKLOADS: Final = (
    BUDGETS,
    DEPLOYMENTS,
    "/apis/apps/v1/namespaces/default/daemonsets",
    "/api/v1/namespaces/default/pods",
)
DECLARED: Final = (
    "/apis/karpenter.sh/v1/nodepools",
    "/apis/karpenter.sh/v1alpha5/provisioners",
    "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    "/apis/karpenter.k8s.aws/v1alpha1/awsnodetemplates",
)
TAGS_OF_A_CLAIM: Final = ("karpenter.sh/nodeclaim", "Name")
"""Tags that an instance gets after its launch."""
SETTLING: Final = 5.0  # seconds
STRIKES: Final = ("interrupt", "reclaim", "rebalance", "impair", "health", "schedule-event")
"""Knobs that give a reason to remove the node of an instance."""
RESERVED: Final = "CapacityReservationId"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlannedPods:
    """Where a stored plan puts a pod. Type and zone are empty for a node that existed before the plan; `claim` is the
    end of its name if the claim does not exist any more.
    """

    execution: str
    claim: str
    instance_type: str
    zone: str


def claim_suffix(execution_arn: str, round_: int, index: int) -> str:
    """Return the end of the name of the claim for one node of one plan."""
    digest = hashlib.sha256(f"{execution_arn}/{round_}/{index}".encode()).digest()
    return base64.b32encode(digest)[:7].decode().lower()


@dataclass(slots=True)
class Actor:
    """A deployed stack and the actions on it."""

    world: DemoStack
    outputs: Mapping[str, str]
    stopped: set[str] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)  # failed executions that an earlier test has reported
    strikes: dict[str, Strike] = field(default_factory=dict)
    """What tests did to instances."""
    recorder: ClusterRecorder | None = None

    # doing

    def stop(self, arn: str) -> None:
        """Stop an execution, which then does not count as failed."""
        self.stopped.add(arn)
        self.world.client("stepfunctions").stop_execution(executionArn=arn, cause="a test")

    def record_cluster(self) -> None:
        """Record the cluster now, as the schedule does every five minutes."""
        functions = self.world.client("lambda")
        name = next(
            each["FunctionName"]
            for each in functions.list_functions()["Functions"]
            if "DescribeCluster" in each["FunctionName"]
        )
        answer = functions.invoke(FunctionName=name, Payload=b"{}")
        assert "FunctionError" not in answer, answer["Payload"].read()

    def apply(self, scenario: str) -> list[Object]:
        """Apply one of the example scenarios unchanged; return its manifests."""
        manifests = list(yaml.safe_load_all((SCENARIOS / scenario).read_text()))
        self.world.kube.apply_manifests(manifests)
        return manifests

    def create(self, *manifests: Object) -> None:
        self.world.kube.apply_manifests(manifests)

    def scale(self, name: str, replicas: int) -> None:
        self.world.kube.merge(f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": replicas}})

    def sweep(self) -> str:
        """Run the sweep now and wait for its end; return its status."""
        fired = self.knob("schedules/fire", name=self.outputs["SweepScheduleName"])
        return str(until(lambda: self._swept(fired["execution"]), what="the sweep's end"))

    def _swept(self, arn: str) -> str | None:
        """Return an Express execution's status from the local AWS; AWS has no such API."""
        executions = self.knob("express-executions", stateMachineArn=self.outputs["SweepArn"], executionArn=arn)[
            "executions"
        ]
        return next((e["status"] for e in executions if e["status"] != "RUNNING"), None)

    def end(self, *deployments: str) -> None:
        """Delete deployments and wait until their pods are gone."""
        for name in deployments:
            self.world.kube.delete(f"{DEPLOYMENTS}/{name}")
        until(lambda: not any(self.pods(name) for name in deployments), what="the pods gone", limit=90)

    def gone_after_a_sweep(self) -> bool:
        """Run one sweep; return whether every node, claim and instance is gone a second later."""
        assert self.sweep() == "SUCCEEDED"
        time.sleep(1)
        return self.is_empty()

    def knob(self, name: str, /, **request: Any) -> Mapping[str, Any]:
        self.strike(name, *self._struck_by(name, request))
        return self.world.knob(name, **request)

    def _struck_by(self, name: str, request: Mapping[str, Any]) -> list[str]:
        """Return the instances for whose nodes the call of a knob is a reason to leave."""
        if name == "reservations" and "expire" in request:
            return [each["InstanceId"] for each in self.instances() if each.get(RESERVED) == request["expire"]]
        return list(request.get("instanceIds") or [request["instanceId"]]) if name in STRIKES else []

    def strike(self, how: str, *instance_ids: str) -> None:
        """Note that something is done to these instances for which their nodes must leave."""
        self.strikes |= dict.fromkeys(instance_ids, Strike(time.time(), how))

    # seeing

    def pods(self, app: str | None = None) -> list[Object]:
        selector = f"?labelSelector=app%3D{app}" if app else ""
        found = self.world.kube.items(f"/api/v1/namespaces/default/pods{selector}")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def running(self, app: str | None = None) -> int:
        return sum(pod["status"].get("phase") == "Running" for pod in self.pods(app))

    def wait_running(self, replicas: int, app: str | None = None, *, limit: float = 90.0) -> float:
        """Wait until that many pods run; return the seconds that it took."""
        began = time.monotonic()
        until(lambda: self.running(app) == replicas, what=f"{replicas} pods of {app or 'all'} running", limit=limit)
        return time.monotonic() - began

    def nodes(self) -> list[Object]:
        return self.world.kube.items("/api/v1/nodes")

    def events(self) -> list[Object]:
        """Return events on pods of the namespace default, and on cluster-scoped objects."""
        return self.world.kube.items("/apis/events.k8s.io/v1/namespaces/default/events")

    def claims(self) -> list[Object]:
        return [claim for path in CLAIM_PATHS for claim in self.world.kube.items(path)]

    def instances(self) -> list[dict[str, Any]]:
        return instances(self.world.client("ec2"), alive=True)

    def instances_ever(self) -> set[str]:
        """Return the ids of all instances that EC2 still shows. It forgets ended ones after a time."""
        return {each["InstanceId"] for each in instances(self.world.client("ec2"))}

    def is_empty(self) -> bool:
        """Return whether there is no node, no claim and no instance."""
        return not (self.nodes() or self.claims() or self.instances())

    def executions(self) -> list[dict[str, Any]]:
        """Return the scale-ups, oldest first."""
        pages = (
            self.world.client("stepfunctions")
            .get_paginator("list_executions")
            .paginate(stateMachineArn=self.world.scale_up_arn)
        )
        return sorted((e for page in pages for e in page["executions"]), key=lambda e: e["startDate"])

    def since(self, known: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the scale-ups that are not in `known`."""
        arns = {e["executionArn"] for e in known}
        return [e for e in self.executions() if e["executionArn"] not in arns]

    def plans_since(self, known: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """Return the plans with nodes of scale-ups that are not in `known`, by key, oldest first."""
        s3, bucket = self.world.client("s3"), self.outputs["BucketName"]
        names = [execution["name"] for execution in self.since(known)]
        listed = [
            found
            for name in names
            for found in s3.list_objects_v2(Bucket=bucket, Prefix=f"plans/{name}/").get("Contents", ())
        ]
        keys = [found["Key"] for found in sorted(listed, key=lambda found: found["LastModified"])]
        read = {key: json.loads(gzip.decompress(s3.get_object(Bucket=bucket, Key=key)["Body"].read())) for key in keys}
        return {key: plan for key, plan in read.items() if plan["nodes"]}

    def places_since(self, known: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, "PlannedPods"]]:
        """Return each pod and its place of each plan of scale-ups that are not in `known`, oldest first.

        Pods of one class have each other's places, so a later plan may name a pod that an earlier one named.
        """
        arns = {execution["name"]: str(execution["executionArn"]) for execution in self.since(known)}
        names = [str(claim["metadata"]["name"]) for claim in self.claims()]
        for key, plan in self.plans_since(known).items():
            _, execution, document = key.split("/")
            for index, node in enumerate(plan["nodes"]):
                end = "-" + claim_suffix(arns[execution], int(document.partition(".")[0]), index)
                claim = next((name for name in names if name.endswith(end)), end)
                for pod in node["pods"]:
                    yield pod, PlannedPods(execution, claim, node["instanceType"], node["zone"])
            for node in plan["existing"]:
                for pod in node["pods"]:
                    yield pod, PlannedPods(execution, node["claim"], "", "")

    def placed(self) -> dict[str, str]:
        """Return the claim of the node of each pod, by the pod's namespace and name."""
        claim_of = {claim["status"].get("nodeName"): str(claim["metadata"]["name"]) for claim in self.claims()}
        return {
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": claim_of[pod["spec"]["nodeName"]]
            for pod in self.pods()
        }

    def states_of(self, arn: str) -> list[str]:
        """Return the names of the states that an execution entered, in order."""
        pages = self.world.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=arn)
        return [
            e["stateEnteredEventDetails"]["name"]
            for page in pages
            for e in page["events"]
            if "stateEnteredEventDetails" in e
        ]

    def item(self, kind: str, identity: str) -> Mapping[str, Any]:
        """Return one item of the table."""
        key = {"kind": {"S": kind}, "id": {"S": identity}}
        answer = self.world.client("dynamodb").get_item(
            TableName=self.outputs["TableName"], Key=key, ConsistentRead=True
        )
        found: Mapping[str, Any] = answer.get("Item", {})
        return found

    def judge_disruptions(self, since: float = 0.0) -> DisruptionJudge:
        """Return what disruptions did since a time (epoch seconds), or since the begin of the test, and judge it."""
        assert self.recorder is not None
        judge = DisruptionJudge(self.recorder.record(since), self.strikes)
        judge.judge()
        return judge

    # resting

    def rest(self, *, limit: float = 90.0) -> None:
        """Wait until no execution of any state machine runs."""
        until(lambda: not self.knob("running-executions")["executions"], what="every execution ended", limit=limit)

    def assert_at_rest(self) -> None:
        """Assert that no execution runs and every invariant holds, if necessary after a short wait."""
        end = time.monotonic() + SETTLING
        while True:
            self.rest()
            found = violations(self.world, table=self.outputs["TableName"])
            if not found or time.monotonic() > end:
                break
            time.sleep(0.2)
        failed = failed_executions(self.world, self.stopped | self.reported)
        self.reported |= failed.keys()  # it is one test's failure, not that of all after it
        assert [*found, *failed.values()] == []

    def let_everything_go(self, *, limit: float = 60.0) -> None:
        """Empty the cluster with Joiner: delete workloads and pools, and wait until claims, nodes and instances are
        gone.
        """
        self._delete_workloads()
        self._delete_declared()
        until(self.is_empty, what="every claim, node and instance gone", limit=limit)

    def clean(self) -> None:
        """Empty the cluster by force, which is faster and works after failed tests: see `let_everything_go`.

        Removes the finalizers of claims and nodes, terminates instances, and deletes the table's items except the
        lease.
        """
        self._delete_workloads()
        for machine in (
            self.outputs["DisruptArn"],
            self.outputs["RetireArn"],
            self.outputs["RetireEmptyArn"],
        ):  # a retirement may wait for half an hour, and a disruption for its replacements
            self._stop_all(machine)
        try:
            self.rest(limit=20)
        except (
            WatchTimeout
        ):  # a scale-up waits a quarter of an hour for a node that never comes; what follows is not to fail for it
            self._stop_all(self.world.scale_up_arn)
            self.rest()
        self._delete_declared()
        for _ in range(2):  # a sweep that this started may launch once more
            if ids := [instance["InstanceId"] for instance in self.instances()]:
                self.world.client("ec2").terminate_instances(InstanceIds=ids)
            for path in (*CLAIM_PATHS, "/api/v1/nodes"):
                self._delete_all(path)
            self.rest()
        self._forget()
        until(lambda: not (self.pods() or self.nodes() or self.claims()), what="an empty cluster", limit=60)

    def _delete_workloads(self) -> None:
        for path in WORKLOADS:
            self.world.kube.delete(path)  # all of the collection

    def _delete_declared(self) -> None:
        for path in DECLARED:
            self.world.kube.delete(path)

    def _stop_all(self, machine: str) -> None:
        self.stopped |= set(self.knob("stop-executions", stateMachineArn=machine, cause="a test")["stopped"])

    def _delete_all(self, path: str) -> None:
        kube = self.world.kube
        kube.delete(path)
        for left in kube.items(path):
            force_delete(kube, f"{path}/{left['metadata']['name']}")

    def forget(self, *kinds: str) -> None:
        """Delete the table's items of these kinds."""
        client, table = self.world.client("dynamodb"), self.outputs["TableName"]
        for page in client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
            for item in page["Items"]:
                if item["kind"]["S"] in kinds:
                    client.delete_item(TableName=table, Key={"kind": item["kind"], "id": item["id"]})

    def _forget(self) -> None:
        client, table = self.world.client("dynamodb"), self.outputs["TableName"]
        for page in client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
            for item in page["Items"]:
                key = {"kind": item["kind"], "id": item["id"]}
                if item["kind"]["S"] == "LEASE":  # a test may have stopped its holder; no execution runs any more
                    client.update_item(
                        TableName=table, Key=key, UpdateExpression="REMOVE holder, leaseUntil, disruptUntil"
                    )
                elif item["kind"]["S"] not in ("CLUSTER", "DOORBELL"):  # the deployment's own
                    client.delete_item(TableName=table, Key=key)


def launch_without_claim(ec2: Any, like: Mapping[str, Any]) -> str:
    """Launch an instance with the tags of one of Joiner's, but for the name of its claim; return its id."""
    tags = [tag for tag in like["Tags"] if not tag["Key"].startswith("aws:") and tag["Key"] not in TAGS_OF_A_CLAIM]
    launched = ec2.run_instances(
        ImageId=like["ImageId"],
        InstanceType="t3.micro",
        SubnetId=like["SubnetId"],
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    return str(launched["Instances"][0]["InstanceId"])
