"""RETIRE of a node whose pod asks to be replaced by a rollout of its Deployment."""

from collections.abc import Callable
from typing import Any

import pytest

from functions.find_candidates import handler as find_candidates
from joiner.adapters import documents
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.cluster_view import ListedCluster
from joiner.adapters.kube_errors import KubeError, TooManyRequests, Unreachable
from tests.unit.functions.conftest import MakeCluster
from tests.unit.functions.disruption_execution import ARN, REMOVED, is_tainted, marked, task
from tests.unit.functions.grown_cluster import evictions, first, grow, nothing_is_left_of, pods_on
from tests.unit.functions.retirement_execution import retire
from tests.unit.functions.simulated_cluster import SimulatedCluster

RESTARTED = "kubectl.kubernetes.io/restartedAt"


def asking(cluster: SimulatedCluster, value: str = "rollout", **spec: Any) -> str:
    """Let the pod of the first node ask for a rollout of the Deployment `web`; return its name."""
    [name] = pods_on(cluster, first(cluster).node_name)
    metadata = cluster.kube.objects["pods", "default", name]["metadata"]
    metadata |= {"annotations": {"joiner.dev/drain": value}, "creationTimestamp": "2026-11-20T12:00:00Z"}
    owner = {"kind": "Deployment", "name": "web", "uid": "d-1", "controller": True}
    replica_set = {"name": "web", "namespace": "default", "ownerReferences": [owner]}
    cluster.kube.put({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": replica_set, "spec": {}})
    made = {"replicas": 1, "template": {"metadata": {"labels": {"app": "web"}}}, **spec}
    cluster.kube.put(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": made,
        }
    )
    return name


def restarts(cluster: SimulatedCluster) -> list[str]:
    return [asked for asked in cluster.kube.asked if asked.startswith("PATCH") and "/deployments/" in asked]


def notes(cluster: SimulatedCluster, reason: str) -> list[str]:
    return [each["note"] for each in cluster.kube.all(kinds.EVENTS) if each["reason"] == reason]


@pytest.fixture
def grown(cluster: SimulatedCluster) -> SimulatedCluster:
    return grow(cluster)


def test_the_deployment_is_restarted_once_and_the_pod_is_not_evicted(grown: SimulatedCluster) -> None:
    claim, pod = first(grown), asking(grown)

    waits = retire(grown, (claim.name, "deleted"), passes=3)

    [made] = grown.kube.all(kinds.DEPLOYMENTS)
    assert RESTARTED in made["spec"]["template"]["metadata"]["annotations"]
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "web"}
    assert len(restarts(grown)) == 1
    assert evictions(grown) == []
    assert waits.entries[0]["why"] == f"pod default/{pod} is replaced by a rollout of Deployment web"
    assert len(notes(grown, "RolloutRestarted")) == 1


def test_the_node_goes_when_the_rollout_has_removed_the_pod(grown: SimulatedCluster) -> None:
    claim, pod = first(grown), asking(grown)

    def rolled_out(state: str) -> None:
        if state == "evict_pods" and restarts(grown):
            grown.kube.objects.pop(("pods", "default", pod), None)

    retire(grown, (claim.name, "deleted"), before_state=rolled_out)

    nothing_is_left_of(grown, claim)
    assert evictions(grown) == []


def test_the_pod_is_evicted_if_the_rollout_does_not_replace_it_in_ten_minutes(grown: SimulatedCluster) -> None:
    claim, _ = first(grown), asking(grown)

    retire(grown, (claim.name, "deleted"), passes=40)

    nothing_is_left_of(grown, claim)
    assert len(restarts(grown)) == len(evictions(grown)) == 1
    assert notes(grown, "RolloutNotPossible") == [
        "Evicted although joiner.dev/drain asks for a rollout: "
        "Deployment web: its rollout has not replaced the pod within 10 minutes"
    ]


@pytest.mark.parametrize(
    ("value", "spec", "why"),
    [
        ("rollout", {"strategy": {"type": "Recreate"}}, "Deployment web: its strategy is Recreate"),
        ("surge", {}, "its value is 'surge'; set rollout"),
    ],
)
def test_a_pod_that_no_rollout_can_replace_is_evicted_and_the_event_has_the_reason(
    grown: SimulatedCluster, value: str, spec: dict[str, Any], why: str
) -> None:
    claim, _ = first(grown), asking(grown, value, **spec)

    retire(grown, (claim.name, "deleted"))

    nothing_is_left_of(grown, claim)
    assert restarts(grown) == []
    assert notes(grown, "RolloutNotPossible") == [f"Evicted although joiner.dev/drain asks for a rollout: {why}"]


def test_an_interrupted_node_does_not_wait_for_a_rollout(grown: SimulatedCluster) -> None:
    claim, _ = first(grown), asking(grown)

    retire(grown, (claim.name, "spot"))

    nothing_is_left_of(grown, claim)
    assert restarts(grown) == []
    assert len(evictions(grown)) == 1


def listed_rollouts(cluster: SimulatedCluster) -> frozenset[str]:
    """Return the pods that a rollout replaces, of those in the snapshot of a look for nodes to disrupt."""
    view = ListedCluster(cluster.kube, find_candidates.DISRUPTED)
    listing = find_candidates.CandidateListing(view, cluster.ledger, cluster.store, AutoscalerDetection(cluster.kube))
    found = listing.answer(task(0), cluster.now, 0)
    return documents.get_snapshot(cluster.store, found["snapshot"]).rollouts


def select_by_budget(cluster: SimulatedCluster, pod: str) -> None:
    cluster.kube.objects["pods", "default", pod]["metadata"]["labels"] = {"app": "only"}
    budget = {"selector": {"matchLabels": {"app": "only"}}, "minAvailable": 1}
    cluster.kube.put(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": budget,
            "status": {"disruptionsAllowed": 0},
        }
    )


def own_pod_alone(cluster: SimulatedCluster, pod: str) -> None:
    """Make the pod the only one of its ReplicaSet."""
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "r-1", "controller": True}
    for (plural, _, name), one in cluster.kube.objects.items():
        if plural == "pods":
            one["metadata"]["ownerReferences"] = [owner] if name == pod else []


@pytest.mark.parametrize(
    ("spec", "replaced"),
    [
        ({}, True),
        ({"replicas": 2}, False),
        ({"paused": True}, False),
        ({"strategy": {"type": "Recreate"}}, False),
        ({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}, False),
        ({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}, False),
        ({"template": {"metadata": {"annotations": {RESTARTED: "2026-11-20T13:00:00Z"}}}}, False),
    ],
    ids=["surge", "two replicas", "paused", "Recreate", "no surge", "may leave first", "not replaced in ten minutes"],
)
def test_a_look_for_nodes_to_disrupt_names_the_pods_that_their_deployments_can_replace_first(
    grown: SimulatedCluster, spec: dict[str, Any], *, replaced: bool
) -> None:
    pod = asking(grown, **spec)
    own_pod_alone(grown, pod)
    assert listed_rollouts(grown) == frozenset(), "no PodDisruptionBudget selects it"
    select_by_budget(grown, pod)

    assert listed_rollouts(grown) == (frozenset({f"default/{pod}"}) if replaced else frozenset())


@pytest.mark.parametrize("missing", ["deployments", "replicasets", "controller"])
def test_a_look_for_nodes_to_disrupt_names_no_pod_without_a_deployment(grown: SimulatedCluster, missing: str) -> None:
    """So with a ReplicaSet of a user, or of a controller of another kind."""
    pod = asking(grown)
    own_pod_alone(grown, pod)
    select_by_budget(grown, pod)
    if missing == "controller":
        owner = {"kind": "Rollout", "name": "web", "uid": "o-1", "controller": True}
        grown.kube.objects["replicasets", "default", "web"]["metadata"]["ownerReferences"] = [owner]
    else:
        del grown.kube.objects[missing, "default", "web"]

    assert listed_rollouts(grown) == frozenset()


def test_a_look_for_nodes_to_disrupt_names_no_pod_whose_deployment_cannot_be_read(grown: SimulatedCluster) -> None:
    pod = asking(grown)
    own_pod_alone(grown, pod)
    select_by_budget(grown, pod)

    def fails(_method: str, path: str, answer: Callable[[], Any]) -> Any:
        if "/deployments/" in path:
            raise Unreachable("as the test says")
        return answer()

    grown.kube.fault = fails

    assert listed_rollouts(grown) == frozenset()


def refusing_restarts(refusal: KubeError) -> Callable[[str, str, Any], Any]:
    """Return a fault: every restart of a Deployment ends with the error."""

    def refuse(method: str, path: str, answer: Any) -> Any:
        if method == "PATCH" and "/deployments/" in path:
            raise refusal
        return answer()

    return refuse


def test_a_cluster_that_refuses_the_restart_has_its_pod_evicted(make_cluster: MakeCluster) -> None:
    cluster = grow(make_cluster())
    claim, _ = first(cluster), asking(cluster)
    cluster.kube.fault = refusing_restarts(KubeError("forbidden", status=403))

    retire(cluster, (claim.name, "deleted"))

    nothing_is_left_of(cluster, claim)
    [note] = notes(cluster, "RolloutNotPossible")
    assert note.startswith("Evicted although joiner.dev/drain asks for a rollout: its Deployment cannot be restarted: ")


@pytest.mark.parametrize("refusal", [Unreachable("no answer"), TooManyRequests("later")])
def test_a_restart_that_gets_no_answer_is_tried_again_and_the_pod_is_not_evicted(
    make_cluster: MakeCluster, refusal: KubeError
) -> None:
    refused: list[str] = []

    def refuse_once(method: str, path: str, answer: Any) -> Any:
        if method == "PATCH" and "/deployments/" in path and not refused:
            refused.append(path)
            raise refusal
        return answer()

    cluster = grow(make_cluster())
    claim, _ = first(cluster), asking(cluster)
    cluster.kube.fault = refuse_once

    retire(cluster, (claim.name, "deleted"), passes=3)

    assert RESTARTED in cluster.kube.all(kinds.DEPLOYMENTS)[0]["spec"]["template"]["metadata"]["annotations"]
    assert (len(refused), evictions(cluster)) == (1, [])


def test_a_cluster_that_never_answers_a_restart_has_its_pod_evicted_in_the_end(make_cluster: MakeCluster) -> None:
    cluster = grow(make_cluster())
    claim, _ = first(cluster), asking(cluster)
    cluster.kube.fault = refusing_restarts(Unreachable("a webhook does not answer", status=500))

    retire(cluster, (claim.name, "deleted"), passes=40)

    nothing_is_left_of(cluster, claim)
    assert len(evictions(cluster)) == 1


def test_a_restart_that_another_controller_undoes_is_not_repeated(grown: SimulatedCluster) -> None:
    claim, _ = first(grown), asking(grown)

    def undo(state: str) -> None:
        if state == "evict_pods":
            [made] = grown.kube.all(kinds.DEPLOYMENTS)
            made["spec"]["template"]["metadata"].pop("annotations", None)
            grown.kube.put(made)

    retire(grown, (claim.name, "deleted"), before_state=undo)

    nothing_is_left_of(grown, claim)
    assert len(restarts(grown)) == len(evictions(grown)) == 1
    assert notes(grown, "RolloutNotPossible") == [
        "Evicted although joiner.dev/drain asks for a rollout: Deployment web: its restart was undone"
    ]


def test_an_interruption_during_a_rollout_ends_the_wait(grown: SimulatedCluster) -> None:
    claim, _ = first(grown), asking(grown)

    def interrupt(state: str) -> None:
        if state == "evict_pods" and restarts(grown):
            grown.machine._update("RETIREMENT", claim.name, "ADD reasons :reason", {":reason": frozenset({"spot"})})

    retire(grown, (claim.name, "deleted"), before_state=interrupt)

    nothing_is_left_of(grown, claim)
    assert len(restarts(grown)) == len(evictions(grown)) == 1


def budget(cluster: SimulatedCluster, pod: str, expected: int, desired: int) -> None:
    """Let a PodDisruptionBudget select the pod that allows no eviction now; `desired` of the `expected` pods must be
    healthy."""
    cluster.kube.objects["pods", "default", pod]["metadata"]["labels"] = {"app": "web"}
    manifest = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0, "expectedPods": expected, "desiredHealthy": desired},
    }
    cluster.kube.put(manifest)


@pytest.mark.parametrize(
    ("changed", "pods", "limit", "begins"),
    [
        ({}, (1, 1), None, True),
        ({"paused": True}, (1, 1), None, False),
        ({"strategy": {"type": "Recreate"}}, (1, 1), None, False),
        ({"replicas": 2}, (2, 2), None, False),
        ({"replicas": 3}, (3, 2), None, True),
        ({"paused": True}, (1, 0), None, True),
        ({"paused": True}, (0, 0), None, True),
        ({"paused": True}, (1, 1), "1h", True),
    ],
    ids=[
        "it is replaced",
        "paused",
        "recreated",
        "all replicas must be healthy",
        "another replica is not ready now",
        "may be evicted",
        "not counted yet",
        "ends in time",
    ],
)
def test_a_node_stays_if_its_pod_can_leave_neither_by_a_rollout_nor_by_an_eviction(
    grown: SimulatedCluster, changed: dict[str, Any], pods: tuple[int, int], limit: str | None, begins: bool
) -> None:
    """Its Deployment changed after DISRUPT had marked the node. The drain waits for a budget that allows some later."""
    claim, pod = first(grown), asking(grown)
    marked(grown, REMOVED)
    grown.machine.break_lease(ARN, 1)
    asking(grown, **changed)
    budget(grown, pod, *pods)
    if limit is not None:
        grown.kube.objects["nodeclaims", "", claim.name]["spec"]["terminationGracePeriod"] = limit

    done = retire(grown, (claim.name, "consolidated"), passes=1)

    assert (claim.name not in done.left_out, is_tainted(grown, claim.node_name)) == (begins, begins)
    if not begins:
        assert done.left_out[claim.name].endswith("and PodDisruptionBudget default/web never allows an eviction")


def test_a_node_stays_if_no_rollout_replaces_its_pod_and_its_budget_cannot_be_computed(grown: SimulatedCluster) -> None:
    """The disruption controller writes SyncFailed; until that succeeds, the API server refuses every eviction."""
    claim, pod = first(grown), asking(grown)
    marked(grown, REMOVED)
    grown.machine.break_lease(ARN, 1)
    asking(grown, paused=True)
    budget(grown, pod, 0, 0)
    [kept] = [one for key, one in grown.kube.objects.items() if key[0] == "poddisruptionbudgets"]
    kept["status"]["conditions"] = [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed"}]

    done = retire(grown, (claim.name, "consolidated"), passes=1)

    assert "never allows an eviction" in done.left_out[claim.name]
