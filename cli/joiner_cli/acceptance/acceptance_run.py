"""One acceptance run: the actions of its steps, and the removal of everything that it created."""

import base64
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_instances import Instance
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import AlreadyExists, NotFound
from joiner.adapters.ledger import Ledger
from joiner.adapters.pause import Pause
from joiner.names import ACTING, NODEPOOL, PRICE, stack_name
from joiner.pools.codecs.declared_objects import read_node_class, read_node_pool
from joiner_cli.acceptance import acceptance_objects
from joiner_cli.acceptance.acceptance_steps import AcceptanceFailed, AcceptanceStep, wait_for
from joiner_cli.acceptance.dry_run_launch import build_dry_run_launch, read_resolved_class
from joiner_cli.deployed_stack import DeployedStack

DRY_RUN_ALLOWED: Final = "DryRunOperation"
NO_TEMPLATE: Final = "InvalidLaunchTemplate"
"""The dry run passed all checks up to the launch template, which only a real launch creates."""
COMPLETE: Final = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE")
DOORBELL_EXECUTION: Final = re.compile(r"up-\d{8}T\d{6}")
"""Names of executions that the doorbell starts; names of the sweep have a suffix."""
FIND_PENDING_PODS: Final = "Find pending pods"
LEASE_WAIT_SECONDS: Final = 5.0  # until the lease is probably free

Manifest = dict[str, Any]


@dataclass(slots=True)
class AcceptanceRun:
    """One run. `made` is true once it may have created objects, which cleanup deletes."""

    here: DeployedStack
    kube: Callable[[], Kube]
    run: str
    node_class: str
    image: str
    made: bool = False
    _answers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the NodePool and the pod."""
        return acceptance_objects.object_name(self.run)

    def actions(self) -> dict[str, Callable[[AcceptanceStep], str]]:
        """Return the action of each step, by the step's name."""
        return {
            "deployment": self.deployment,
            "cluster-access": self.cluster_access,
            "launch-template": lambda _: self._dry_run("launch-template"),
            "run-instances": lambda _: self._dry_run("run-instances"),
            "create-fleet": lambda _: self._dry_run("create-fleet"),
            "token": self.token,
            "ring": self.ring,
            "node-up": self.node_up,
            "node-down": self.node_down,
            "cleanup": self.cleanup,
        }

    # Steps that change nothing

    def deployment(self, _: AcceptanceStep) -> str:
        """Check the stack's status and the pause parameter."""
        stack = self.here.client("cloudformation").describe_stacks(StackName=stack_name(self.here.cluster))["Stacks"][0]
        status = str(stack["StackStatus"])
        if status not in COMPLETE:
            raise AcceptanceFailed(f"the stack is {status}", "wait for it, or deploy again")
        value = Pause(self.here.client("ssm"), self.here.cluster).value()
        if value != ACTING:
            raise AcceptanceFailed(f"the pause parameter is {value!r}", f"joiner resume {self.here.cluster}")
        return f"{stack['StackName']} is {status}, Joiner acts"

    def cluster_access(self, step: AcceptanceStep) -> str:
        """Wait until Joiner has resolved the node class."""
        conditions: dict[str, str] = {}

        def check() -> str:
            manifest = self._class()
            conditions.clear()
            conditions.update(acceptance_objects.conditions(manifest))
            there = read_resolved_class(manifest)
            if not conditions.get("Ready", "").startswith("True") or not (there.subnets and there.images):
                return ""
            return f"EC2NodeClass {self.node_class} is ready: {len(there.subnets)} subnets, {len(there.images)} images"

        unready = f"kubectl describe ec2nodeclass {self.node_class}; Joiner resolves a class that a NodePool names"
        return wait_for(
            check,
            step,
            missing=lambda: (
                f"EC2NodeClass {self.node_class} is not ready "
                f"({json.dumps(conditions) if conditions else 'no conditions'})"
            ),
            remedy=unready,
        )

    def _class(self) -> Manifest:
        try:
            return self.kube().get(kinds.EC2NODECLASSES, self.node_class)
        except NotFound:
            raise AcceptanceFailed(
                f"there is no EC2NodeClass {self.node_class}", "name one by --node-class, or create one and a NodePool"
            ) from None

    def _dry_run(self, name: str) -> str:
        """Return the answer of one dry run; one invocation of launch_instances makes all three."""
        if not self._answers:
            self._answers = self._request_dry_runs()
        code, message = self._answers[name]["code"], self._answers[name]["message"]
        if code == DRY_RUN_ALLOWED:
            return f"EC2 allows the request ({code})"
        if name == "create-fleet" and code.startswith(NO_TEMPLATE):
            return (
                f"EC2 allows it as far as the launch template, which a dry run does not create ({code}); node-up shows "
                "the rest"
            )
        raise AcceptanceFailed(
            f"{code}: {message}",
            "if it is UnauthorizedOperation: aws sts decode-authorization-message --encoded-message ...; look for a "
            "service control "
            "policy, a permissions boundary, or an image owner that imageOwners does not name",
        )

    def _request_dry_runs(self) -> Mapping[str, Mapping[str, str]]:
        manifest = self._class()
        pool = read_node_pool(acceptance_objects.build_node_pool(self.run, self.node_class))
        launch = build_dry_run_launch(
            read_node_class(manifest),
            pool,
            read_resolved_class(manifest),
            cluster=self.here.cluster,
            run=self.run,
            types=acceptance_objects.TYPES[2:3],
        )
        payload = json.dumps({"dryRun": launch.to_json()}).encode()
        answer = self.here.client("lambda", seconds=60).invoke(
            FunctionName=self.here.outputs["LaunchFunction"], Payload=payload
        )
        body = json.loads(answer["Payload"].read() or b"{}")
        if answer.get("FunctionError"):
            raise AcceptanceFailed(
                f"launch_instances failed: {body.get('errorMessage', body)}",
                "its log group in CloudWatch Logs says more",
            )
        found: Mapping[str, Mapping[str, str]] = body
        return found

    # Steps that launch nothing

    def token(self, step: AcceptanceStep) -> str:
        """Start a scale-up, which reads the cluster with a function's token; start it again if another one holds the
        lease.
        """
        states, arn = self.here.client("stepfunctions"), self.here.outputs["ScaleUpArn"]
        deadline = time.monotonic() + step.seconds
        for number in range(1, step.seconds):
            started = states.start_execution(
                stateMachineArn=arn, name=f"accept-{self.run}-{number}", input='{"reason": "joiner accept"}'
            )
            remaining = AcceptanceStep(step.name, step.shows, max(1, int(deadline - time.monotonic())))
            check = self._saw_pods(started["executionArn"])
            message = wait_for(
                check,
                remaining,
                missing=lambda: f"{FIND_PENDING_PODS} did not end",
                remedy="look at the execution in the console",
            )
            if message != "again":
                return message
            time.sleep(LEASE_WAIT_SECONDS)
        raise AcceptanceFailed("another scale-up held the lease all the time", "run this again when no scale-up runs")

    def _saw_pods(self, execution: str) -> Callable[[], str]:
        states = self.here.client("stepfunctions")

        def check() -> str:
            described = states.describe_execution(executionArn=execution)
            if FIND_PENDING_PODS in read_left_states(states, execution) and described["status"] in (
                "RUNNING",
                "SUCCEEDED",
            ):
                return "find_pending_pods listed the cluster with its own token"
            if described["status"] == "RUNNING":
                return ""
            if described["status"] == "SUCCEEDED":
                return "again"
            raise AcceptanceFailed(
                f"{described['status']}: {described.get('error', '')} {described.get('cause', '')}"[:600],
                "Unauthorized or Forbidden: look for the access entries of the stack (aws eks list-access-entries); "
                "Unreachable: a private "
                "endpoint needs vpc.subnets and vpc.securityGroup in the settings",
            )

        return check

    def ring(self, step: AcceptanceStep) -> str:
        """Create a pod that no node can run: kube-scheduler's event calls the doorbell."""
        if affected := acceptance_objects.pools_naming_label(
            [*self.kube().list(kinds.NODEPOOLS), *self.kube().list(kinds.PROVISIONERS)]
        ):
            raise AcceptanceFailed(
                f"the pools {', '.join(affected)} name {acceptance_objects.KEY}",
                "delete what is left of an earlier run: kubectl delete nodepool",
            )
        ledger = Ledger(self.here.client("dynamodb"), self.here.outputs["TableName"])
        before, known = ledger.lease().rings, self._executions()
        self.made = True
        try:
            self.kube().create(kinds.PODS, acceptance_objects.build_pod(self.run, self.image), namespace="default")
        except AlreadyExists:
            raise AcceptanceFailed(f"there is a pod default/{self.name}", "delete it and run this again") from None

        def check() -> str:
            began = self._executions() - known
            if any(DOORBELL_EXECUTION.fullmatch(each) for each in began):
                return "the doorbell started a scale-up for the pod's event"
            grew = ledger.lease().rings > before
            return "the ledger counted the ring" if grew and not began else ""

        return wait_for(
            check,
            step,
            missing=lambda: (
                f"the doorbell was not called (rings in the ledger: {before} before, {ledger.lease().rings} now)"
            ),
            remedy=(
                "kubectl get validatingwebhookconfiguration joiner-doorbell; the control plane must reach the "
                "DoorbellUrl of the stack"
            ),
        )

    def _executions(self) -> set[str]:
        """Return the names of the latest scale-ups, without those of this command."""
        listed = self.here.client("stepfunctions").list_executions(
            stateMachineArn=self.here.outputs["ScaleUpArn"], maxResults=50
        )
        return {str(each["name"]) for each in listed["executions"] if not each["name"].startswith("accept-")}

    # Steps with one node

    def node_up(self, step: AcceptanceStep) -> str:
        """Create the NodePool, and wait until the pod runs."""
        began = time.monotonic()
        self.kube().create(kinds.NODEPOOLS, acceptance_objects.build_node_pool(self.run, self.node_class))
        return wait_for(
            lambda: self._runs(began),
            step,
            missing=self._why_not,
            remedy=f"kubectl describe pod,nodepool,nodeclaim -l {acceptance_objects.KEY}",
        )

    def _runs(self, began: float) -> str:
        pod = self.kube().get(kinds.PODS, self.name, namespace="default")
        if pod["status"].get("phase") != "Running":
            return ""
        types = ", ".join(f"{each.instance_type} in {each.zone}" for each in self._instances())
        prices = [str((claim["metadata"].get("annotations") or {}).get(PRICE, "?")) for claim in self._claims()]
        return (
            f"the pod runs after {time.monotonic() - began:.0f} s on {types or 'a node'} ({', '.join(prices)} US$ an "
            "hour)"
        )

    def _why_not(self) -> str:
        claims = [
            f"{each['metadata']['name']}: {json.dumps(acceptance_objects.conditions(each))}" for each in self._claims()
        ]
        events = self.kube().list(kinds.EVENTS, namespace="default", fields=f"regarding.name={self.name}")
        notes = [str(each.get("note") or "") for each in events][-2:]
        return "; ".join([*notes, *claims])[:800] or "there is no NodeClaim and no event"

    def node_down(self, step: AcceptanceStep) -> str:
        """Delete the pod and the pool, and wait until Joiner has drained the node and terminated its instance."""
        began = time.monotonic()
        self._delete()
        message = wait_for(
            self._is_gone,
            step,
            missing=self._what_is_left,
            remedy=f"kubectl get nodeclaims -l {NODEPOOL}={self.name} -o yaml",
        )
        return f"{message} after {time.monotonic() - began:.0f} s"

    def cleanup(self, step: AcceptanceStep) -> str:
        """Delete everything that is left of the run, and wait until it is gone."""
        if not self.made:
            return "the run created nothing"
        self._delete()
        return wait_for(
            self._is_gone,
            step,
            missing=self._what_is_left,
            remedy="terminate the instances named here, then delete their NodeClaims: they cost money",
        )

    def _delete(self) -> None:
        for kind, namespace in ((kinds.PODS, "default"), (kinds.NODEPOOLS, "")):
            try:
                self.kube().delete(kind, self.name, namespace=namespace)
            except NotFound:
                continue

    def _claims(self) -> list[Manifest]:
        return self.kube().list(kinds.NODECLAIMS, labels=f"{NODEPOOL}={self.name}")

    def _instances(self) -> list[Instance]:
        ours = Ec2(self.here.client("ec2", seconds=30)).instances_of_cluster(self.here.cluster)
        return [each for each in ours if each.tags.get(NODEPOOL) == self.name]

    def _is_gone(self) -> str:
        return "" if self._claims() or self._instances() else "NodeClaim, Node and instance are gone"

    def _what_is_left(self) -> str:
        claims = [
            f"NodeClaim {each['metadata']['name']}: {json.dumps(acceptance_objects.conditions(each))}"
            for each in self._claims()
        ]
        return "; ".join([*claims, *(f"instance {each.id} is {each.state}" for each in self._instances())])[:800]


def read_left_states(states: Any, execution: str) -> set[str]:
    """Return the names of the states that an execution has left, from all pages of its history."""
    pages = states.get_paginator("get_execution_history").paginate(executionArn=execution)
    events = (event for page in pages for event in page["events"])
    return {str(each["stateExitedEventDetails"]["name"]) for each in events if "stateExitedEventDetails" in each}


def connect_api_server(here: DeployedStack) -> Callable[[], Kube]:
    """Return a function that connects to the cluster's API server with the caller's credentials, at the first call."""
    connected: list[Kube] = []

    def kube() -> Kube:
        if not connected:
            from joiner.adapters.kube import ClusterAccess
            from joiner.adapters.tokens import EksTokens

            cluster = here.client("eks").describe_cluster(name=here.cluster)["cluster"]
            ca = base64.b64decode(cluster["certificateAuthority"]["data"]).decode()
            tokens = EksTokens(here.cluster, here.region, here.credentials, time.time)
            connected.append(Kube(ClusterAccess(cluster["endpoint"], ca, tokens)))
        return connected[0]

    return kube
