"""All removals that no user requests, in one cluster at the same time.

Each case has its own pool, a Deployment of one pod, and so its own node. All faults are injected at the same time, then
the sweep runs every few seconds until all cases have ended, and each test checks the result of its case.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import condition, instances, until
from joiner_local.demo.execution_listing import execution, executions
from tests.e2e.retirement_listing import names_of_begun_claims
from tests.e2e.stack_actions import Actor, launch_without_claim
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, NEVER_DISRUPTED, deployment, node_class, node_pool

pytestmark = pytest.mark.e2e

NODECLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
NODEPOOLS = "/apis/karpenter.sh/v1/nodepools"
APART = 2.0  # seconds, clusters/local.yaml
BETWEEN_SWEEPS = 5.0
HANDLED_WITHIN = 90.0  # seconds until events of EC2 and calls of the doorbell have been handled, on a busy machine
UNAVAILABLE_FOR = 180  # seconds, joiner.catalogue.unavailable_offerings
GRACE = 120  # seconds from the warning until EC2 takes the spot instance back
SURVEY = "Survey the cluster"
RECLAIMED = "Server.SpotInstanceTermination"  # EC2's state reason of an instance that it took back
EMPTY_FOR = 20  # seconds: it is 15 s empty at least, and 20 s open
LIMIT = 300.0
UNKNOWN_SO_LONG = timedelta(minutes=6)  # EC2 may not know an instance yet that it launched five minutes ago

STORIES: Mapping[str, Mapping[str, Any]] = {
    # What is special about each story's pool
    "deleted": {},
    "empty": {"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1s"}},
    "expired": {"expireAfter": "8s"},
    "lost": {},
    "stopped": {},
    "spot": {"capacityType": "spot"},
    "never": {"instanceType": "c5.large"},
    "stripped": {},
}


def pool_of(name: str, special: Mapping[str, Any]) -> Object:
    """Return the pool of one case."""
    return node_pool(
        name,
        {
            CAPACITY_TYPE: [special.get("capacityType", "on-demand")],
            INSTANCE_TYPE: [special.get("instanceType", "m5.large")],
        },
        class_name="sweep",
        disruption=special.get("disruption", NEVER_DISRUPTED),
        expireAfter=special.get("expireAfter", "Never"),
    )


@dataclass
class Aftermath:
    """The state before the faults, by case; the results, and after how many seconds."""

    actor: Actor
    claims: dict[str, Object] = field(default_factory=dict)
    garbage: str = ""
    began: float = 0.0
    began_at: float = 0.0  # in epoch seconds
    emptied_at: float = 0.0
    """When the open node of the case `empty` had no pod, in epoch seconds."""
    over: dict[str, float] = field(default_factory=dict)
    endings: dict[str, str] = field(default_factory=dict)
    """EC2's state reasons of the instances that ended; EC2 forgets them before the tests read them."""
    swept: list[str] = field(default_factory=list)

    def claim_of(self, story: str) -> Object | None:
        """Return the current claim of the case's pool."""
        mine = (
            each
            for each in self.actor.claims()
            if each["metadata"].get("labels", {}).get("karpenter.sh/nodepool") == story
        )
        return next(mine, None)

    def instance(self, story: str) -> str:
        """Return the case's first instance."""
        return str(self.claims[story]["status"]["providerID"].rpartition("/")[2])

    def check(self) -> bool:
        """Record which cases have ended; return whether all have."""
        listed = {each["InstanceId"]: each for each in instances(self.actor.world.client("ec2"))}
        alive = {each["InstanceId"] for each in self.actor.instances()}
        self.endings |= {
            each: listed[each]["StateReason"]["Code"] for each in listed.keys() - alive if "StateReason" in listed[each]
        }
        nodes = {each["spec"].get("providerID", "").rpartition("/")[2] for each in self.actor.nodes()}
        claims = {
            each["metadata"]["name"]: each.get("status", {}).get("providerID", "").rpartition("/")[2]
            for each in self.actor.claims()
        }
        running = {
            each["metadata"]["labels"]["app"] for each in self.actor.pods() if each["status"].get("phase") == "Running"
        }
        ended = {story for story in STORIES if self.instance(story) not in alive | nodes | set(claims.values())}
        done = {story for story in ended if story in running or story == "empty"}
        done |= ({"garbage"} if self.garbage not in alive else set()) | (
            {"orphan"} if "orphan" not in claims else set()
        )
        for story in done:
            self.over.setdefault(story, time.monotonic() - self.began)
        return len(done) == len(STORIES) + 2

    def await_the_end(self) -> None:
        """Run sweeps every few seconds until all cases have ended."""
        while not self.check() and time.monotonic() < self.began + LIMIT:
            self.swept.append(self.actor.sweep())
            waited = time.monotonic() + BETWEEN_SWEEPS
            while not self.check() and time.monotonic() < waited:
                time.sleep(0.3)

    def await_ec2s_word(self) -> None:
        """Wait until EC2's events have started retirements: on a busy machine their function may start later than a
        sweep, which would start the same retirements first."""
        expected = {self.claims[story]["metadata"]["name"] for story in ("lost", "stopped", "spot")}
        while not expected <= self.retired_when_interrupted() and time.monotonic() < self.began + HANDLED_WITHIN:
            time.sleep(0.3)

    def swept_by_the_deletion(self) -> bool:
        """Return whether a sweep that the doorbell started for a deletion has retired the case's instance."""
        asked = {"stateMachineArn": self.actor.outputs["SweepArn"]}
        return any(
            each["name"].endswith("-deletion") and self.instance("deleted") in str(each.get("output"))
            for each in self.actor.knob("express-executions", **asked)["executions"]
        )

    def await_the_sweep_of_the_deletion(self) -> None:
        """Wait until the doorbell's sweep has found the deleted node: a sweep of this test would find it, too."""
        end = time.monotonic() + HANDLED_WITHIN
        while not self.swept_by_the_deletion() and time.monotonic() < end:
            time.sleep(0.3)

    def await_the_empty_node(self) -> None:
        """Wait until the node of the case `empty` is open and has no pod, and record when."""
        kube, claim = self.actor.world.kube, f"{NODECLAIMS}/{self.claims['empty']['metadata']['name']}"
        until(lambda: condition(kube.get(claim), "Initialized") == "True", what="an open node")
        pods = "/api/v1/namespaces/default/pods?labelSelector=app%3Dempty"
        until(lambda: not kube.items(pods), what="the node without its pod")
        self.emptied_at = time.time()

    def surveys(self) -> list[tuple[float, float]]:
        """Return when the sweeps that looked at the cluster began and ended, in order. One that finds another at work
        does not look."""
        asked = {"stateMachineArn": self.actor.outputs["SweepArn"]}
        listed = self.actor.knob("express-executions", **asked)["executions"]
        found = [
            self.actor.knob("express-executions", **asked, executionArn=each["executionArn"])["executions"][0]
            for each in listed
            if each["status"] == "SUCCEEDED" and each["startDate"] >= self.emptied_at
        ]
        return sorted(
            (each["startDate"], each["stopDate"])
            for each in found
            if any(event.get("stateEnteredEventDetails", {}).get("name") == SURVEY for event in each["events"])
        )

    def retired_when_interrupted(self) -> set[str]:
        """Return the claims whose retirement was started by an interruption, not by a sweep."""
        client, machine = self.actor.world.client("stepfunctions"), self.actor.outputs["RetireArn"]
        listed = client.list_executions(stateMachineArn=machine)["executions"]
        interrupted = [each["executionArn"] for each in listed if each["name"].endswith("-interrupted")]
        return {claim for arn in interrupted for claim in names_of_begun_claims(self.actor, arn)}


@pytest.fixture(scope="module")
def aftermath(deployed: Actor) -> Iterator[Aftermath]:
    """Inject all faults, then run sweeps until all cases have ended."""
    deployed.clean()
    deployed.create(node_class("sweep"), *(pool_of(name, special) for name, special in STORIES.items()))
    deployed.world.stack.agent_knob(
        "faults", {"fault": "never-boots", "instanceType": STORIES["never"]["instanceType"]}
    )
    deployed.rest()
    for name in STORIES:
        deployed.create(deployment(name, nodeSelector={"karpenter.sh/nodepool": name}))
    made = Aftermath(deployed)
    for name in STORIES:
        if name != "never":
            deployed.wait_running(1, name)
    made.claims = {name: claim_launched(made, name) for name in STORIES}
    deployed.world.stack.agent_knob("faults", {"clear": True})
    trouble(made)
    made.await_the_end()
    yield made
    deployed.clean()


def claim_launched(made: Aftermath, story: str) -> Object:
    def look() -> Object | None:
        claim = made.claim_of(story)
        return claim if claim is not None and claim.get("status", {}).get("providerID") else None

    return until(look, what=f"a claim of {story}")


def trouble(made: Aftermath) -> None:
    """Inject all faults."""
    actor, ec2, kube = made.actor, made.actor.world.client("ec2"), made.actor.world.kube
    made.began, made.began_at = time.monotonic(), time.time()
    actor.scale("empty", 0)
    kube.merge(
        f"{NODEPOOLS}/expired", {"spec": {"template": {"spec": {"expireAfter": "Never"}}}}
    )  # each claim keeps its own
    ec2.terminate_instances(InstanceIds=[made.instance("lost")])
    ec2.stop_instances(InstanceIds=[made.instance("stopped")])
    actor.knob("interrupt", instanceId=made.instance("spot"), grace=GRACE)
    made.await_the_empty_node()
    made.await_ec2s_word()
    kube.delete(f"/api/v1/nodes/{made.claims['deleted']['status']['nodeName']}")
    made.await_the_sweep_of_the_deletion()
    long_ago = (datetime.now(UTC) - timedelta(minutes=16)).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [{**each, "lastTransitionTime": long_ago} for each in made.claims["never"]["status"]["conditions"]]
    kube.merge(
        f"{NODECLAIMS}/{made.claims['never']['metadata']['name']}/status", {"status": {"conditions": conditions}}
    )
    stripped = f"{NODECLAIMS}/{made.claims['stripped']['metadata']['name']}"
    kube.merge(stripped, {"metadata": {"finalizers": None}})
    kube.delete(stripped)
    made.garbage = orphan_instance(made)
    orphan_claim(made)


def orphan_instance(made: Aftermath) -> str:
    """Launch an instance with Joiner's tags and without a claim."""
    ec2 = made.actor.world.client("ec2")
    return launch_without_claim(ec2, instances(ec2, alive=True)[0])


def orphan_claim(made: Aftermath) -> None:
    """Create a claim whose instance does not exist."""
    kube, like = made.actor.world.kube, made.claims["deleted"]
    metadata = {
        "name": "orphan",
        "labels": {"karpenter.sh/nodepool": "deleted"},
        "finalizers": ["karpenter.sh/termination"],
    }
    claim = {"apiVersion": like["apiVersion"], "kind": like["kind"], "metadata": metadata, "spec": like["spec"]}
    kube.create(NODECLAIMS, claim)
    before = (datetime.now(UTC) - UNKNOWN_SO_LONG).strftime("%Y-%m-%dT%H:%M:%SZ")
    known = [{"type": "Launched", "status": "True", "reason": "Launched", "message": "", "lastTransitionTime": before}]
    status = {"providerID": "aws:///us-east-1a/i-0123456789abcdef0", "conditions": known}
    kube.merge(f"{NODECLAIMS}/orphan/status", {"status": status})


def test_every_sweep_succeeds(aftermath: Aftermath) -> None:
    assert set(aftermath.swept) == {"SUCCEEDED"}


def test_a_deleted_node_calls_the_doorbell_is_drained_and_terminated_and_its_pod_runs_elsewhere(
    aftermath: Aftermath,
) -> None:
    assert "deleted" in aftermath.over
    assert aftermath.swept_by_the_deletion()


@pytest.mark.parametrize("story", ["lost", "stopped"])
def test_an_instance_terminated_by_others_is_retired_by_ec2s_event_and_its_pod_runs_elsewhere(
    aftermath: Aftermath, story: str
) -> None:
    assert story in aftermath.over
    assert aftermath.claims[story]["metadata"]["name"] in aftermath.retired_when_interrupted()


def test_after_a_spot_warning_the_pod_runs_elsewhere_before_ec2_terminates_the_instance(aftermath: Aftermath) -> None:
    decided = (INSTANCE_TYPE, "topology.kubernetes.io/zone", CAPACITY_TYPE)
    replacement = aftermath.claim_of("spot")

    assert "spot" in aftermath.over
    assert aftermath.endings[aftermath.instance("spot")] != RECLAIMED
    assert aftermath.claims["spot"]["metadata"]["name"] in aftermath.retired_when_interrupted()
    assert replacement is not None
    before, after = (
        [claim["metadata"]["labels"][key] for key in decided] for claim in (aftermath.claims["spot"], replacement)
    )
    began = datetime.fromisoformat(replacement["metadata"]["creationTimestamp"]).timestamp() - aftermath.began_at
    # the offering that was taken back is not asked for again so soon
    assert before != after or began > UNAVAILABLE_FOR


def test_an_expired_node_is_drained_and_replaced(aftermath: Aftermath) -> None:
    assert "expired" in aftermath.over


def test_a_node_that_never_registered_is_replaced(aftermath: Aftermath) -> None:
    assert "never" in aftermath.over


def test_a_node_without_a_claim_gets_it_back_and_is_drained(aftermath: Aftermath) -> None:
    """Kubernetes' garbage collector deletes a Node whose owner is gone: without a claim it would not be drained."""
    events = aftermath.actor.world.kube.items("/apis/events.k8s.io/v1/namespaces/default/events")

    assert "stripped" in aftermath.over
    assert aftermath.claims["stripped"]["metadata"]["name"] in {
        e["regarding"]["name"] for e in events if e["reason"] == "ClaimRebuilt"
    }


def test_orphaned_instances_and_claims_are_removed_after_two_sweeps(
    aftermath: Aftermath,
) -> None:
    assert aftermath.over["garbage"] > APART
    assert aftermath.over["orphan"] > APART


def test_an_empty_node_is_removed_by_the_first_sweep_after_its_time(aftermath: Aftermath) -> None:
    claim = aftermath.claims["empty"]["metadata"]["name"]
    retirements = aftermath.actor.knob("express-executions", stateMachineArn=aftermath.actor.outputs["RetireEmptyArn"])
    begun, due_at = min(
        (each["startDate"], one["notBefore"])
        for each in retirements["executions"]
        for one in json.loads(each["input"])["claims"]
        if one["claim"] == claim
    )
    surveys = aftermath.surveys()

    # The first one finds it empty at the latest; one that begins after its time asks for its retirement at the latest
    _, seen = surveys[0]
    assert due_at <= seen + EMPTY_FOR
    assert begun <= min((ended for since, ended in surveys if since >= seen + EMPTY_FOR), default=inf)
    assert "empty" in aftermath.over
    assert aftermath.claim_of("empty") is None


def test_an_empty_node_is_removed_by_an_express_execution_only(aftermath: Aftermath) -> None:
    world, instance, claim = (
        aftermath.actor.world,
        aftermath.instance("empty"),
        aftermath.claims["empty"]["metadata"]["name"],
    )

    def asked(machine: str) -> list[Mapping[str, Any]]:
        every = (execution(world, each["executionArn"]) for each in executions(world, machine))
        return [each for each in every if instance in each["input"]]

    assert any(claim in json.loads(each["output"])["retired"] for each in asked(world.retire_empty_arn))
    # A sweep that lists the deleted claim just before it goes may start a Standard one, which finds nothing left to do
    reasons = {
        one["reason"]
        for each in asked(world.retire_arn)
        for one in json.loads(each["input"])["claims"]
        if one["claim"] == claim
    }
    assert "empty" not in reasons
