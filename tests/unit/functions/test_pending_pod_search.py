"""One search for pending pods: when it lists, which rings its snapshot covers, and when a batch is complete."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any

import pytest

from functions.find_pending_pods.batch_looks import SearchTime
from functions.find_pending_pods.handler import DEFAULT_TIMES, FIRST_SEARCH, PendingPodSearch, read_batch_times
from joiner.adapters import documents
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.cluster_view import ListedCluster
from joiner.adapters.listed_pods_role import ListedPodsRole
from joiner.adapters.parallel_calls import TimeLeft
from joiner.adapters.payload import Execution, Task
from joiner.lifecycle.pod_gathering import BatchTimes, Gathering
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.functions.small_account import CLUSTER, NODEPOOL, pending

NOTHING_HAPPENS: Mapping[int, Callable[[], object]] = {}


class TimedSearch:
    """A search whose clock pauses advance, and lists of pods if they take `listing` seconds; `meanwhile` happens in the
    pause of its number, counted from 1. Its function is stopped after `lasts` seconds.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        meanwhile: Mapping[int, Callable[[], object]] = NOTHING_HAPPENS,
        times: BatchTimes = DEFAULT_TIMES,
        *,
        listing: float = 0.0,
        lasts: float = inf,
    ) -> None:
        self.slept: list[float] = []
        self.listed = 0.0
        self._listing = listing
        self._lasts = lasts
        self._times = times
        self._cluster = cluster
        self._meanwhile = meanwhile
        self._task = Task(Execution("up-1", arn("up-1"), ""), CLUSTER, cluster._take_lease("up-1") or 0, 1)

    def answer(self, so_far: Gathering = FIRST_SEARCH) -> dict[str, Any]:
        kube = self._cluster.kube
        began = self.clock()
        if self._listing:
            kube.fault = self._list_slowly
        search = PendingPodSearch(
            ListedCluster(kube),
            self._cluster.ledger,
            self._cluster.known,
            self._cluster.store,
            AutoscalerDetection(kube),
            listed_pods=ListedPodsRole(kube),
            times=self._times,
            timing=SearchTime(self._sleep, self.clock, TimeLeft(lambda: began + self._lasts - self.clock())),
        )
        now = self._cluster.now + timedelta(seconds=began)
        return search.answer(self._task, now, int(now.timestamp()) + 90, so_far)

    def clock(self) -> float:
        return sum(self.slept) + self.listed

    def _list_slowly(self, _method: str, path: str, do: Callable[[], Any]) -> Any:
        self.listed += self._listing if path == "/api/v1/pods" else 0.0
        return do()

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._meanwhile.get(len(self.slept), lambda: None)()


def bare(name: str, *, tried: bool = True) -> dict[str, Any]:
    """Return a pod without a controller; the scheduler has found no node for it, or has not tried it yet."""
    pod = pending(name)
    del pod["metadata"]["ownerReferences"]
    return pod if tried else {**pod, "status": {"phase": "Pending"}}


def replica_set(name: str, replicas: int, created: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas},
        "status": {"replicas": created},
    }


def when_listing_pools(cluster: SimulatedCluster, happens: Callable[[], object]) -> None:
    """Let something happen when the snapshot's pools are listed for the first time, which is before its pods are."""
    left = [happens]

    def fault(_method: str, path: str, act: Callable[[], Any]) -> Any:
        if path.endswith("/nodepools") and left:
            left.pop()()
        return act()

    cluster.kube.fault = fault


def planned_pods(cluster: SimulatedCluster, found: Mapping[str, Any]) -> set[str]:
    return {pod.key for pod in documents.get_snapshot(cluster.store, found["snapshot"]).pods}


# Rings and what is stored


def test_who_was_rung_by_a_pool_lists_no_sooner_than_the_pool_is_stored(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    search = TimedSearch(cluster, {1: lambda: cluster.kube.put(bare("web-1"))})  # what rang is stored from now on

    cluster.ledger.ring()
    assert (search.answer()["pods"], search.slept) == (0, [])
    cluster.ledger.ring(cluster.now.timestamp() + 0.4)
    assert search.answer()["pods"] == 1
    assert search.slept == pytest.approx([0.4])
    assert search.answer()["pods"] == 1
    assert len(search.slept) == 1


def test_a_pool_that_rings_while_a_batch_gathers_is_in_the_snapshot_or_its_ring_is_not_counted(
    cluster: SimulatedCluster,
) -> None:
    """The doorbell counts a ring before the API server stores the pool."""
    cluster.prepare(replica_set("web", 2, 1), pending("web-1"))
    spare = {**NODEPOOL, "metadata": {"name": "spare"}}

    def rings() -> None:
        cluster.kube.put(pending("web-2"))  # the batch is complete
        cluster.ledger.ring(cluster.now.timestamp() + 0.5 + 1)

    search = TimedSearch(cluster, {1: rings, 2: lambda: cluster.kube.put(spare)})
    found = search.answer()

    assert search.slept == pytest.approx([0.5, 1.0])
    assert (found["complete"], found["rings"]) == (True, cluster.ledger.lease().rings)
    assert "spare" in [pool.name for pool in documents.get_snapshot(cluster.store, found["snapshot"]).pools]


def test_the_time_until_a_pool_is_stored_is_not_waited_twice(cluster: SimulatedCluster) -> None:
    cluster.prepare(replica_set("web", 2, 1), pending("web-1"))
    cluster.ledger.ring(cluster.now.timestamp() + 0.8)
    search = TimedSearch(cluster, {2: lambda: cluster.kube.put(pending("web-2"))})

    assert search.answer()["complete"]
    assert search.slept == pytest.approx([0.8, 0.5])


# When a batch is complete


def test_a_batch_that_is_complete_half_a_second_later_needs_no_other_search(cluster: SimulatedCluster) -> None:
    cluster.prepare(replica_set("web", 2, 1), pending("web-1"))

    def arrives() -> None:
        cluster.kube.put(pending("web-2"))  # its controller has not counted it
        cluster.ledger.ring()

    search = TimedSearch(cluster, {1: arrives})
    found = search.answer()

    assert (found["complete"], found["pods"], found["podsToPlan"], search.slept) == (True, 2, 2, [0.5])
    assert found["rings"] == cluster.ledger.lease().rings  # no ring of a pod that it listed makes it search again


def test_a_batch_that_grows_for_some_seconds_needs_no_other_search(cluster: SimulatedCluster) -> None:
    cluster.prepare(replica_set("web", 8, 1), pending("web-1"))

    def arrives(number: int) -> None:
        cluster.kube.put(pending(f"web-{number}"))

    search = TimedSearch(cluster, {number: partial(arrives, number + 1) for number in range(1, 8)})
    found = search.answer()

    assert (found["complete"], found["pods"], search.slept) == (True, 8, [0.5] * 7)


@pytest.mark.parametrize(("event", "lists"), [({"launched": True}, 1), ({"launched": False}, 3), ({}, 3)])
def test_an_execution_that_has_launched_lists_a_growing_batch_once(
    cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, event: dict[str, bool], lists: int
) -> None:
    """Its nodes may register any time, and another execution plans for the batch."""
    monkeypatch.setenv("JOINER_BATCH_IDLE_SECONDS", "1")
    monkeypatch.setenv("JOINER_BATCH_LONGEST_SECONDS", "1")
    cluster.prepare(replica_set("web", 2, 1), pending("web-1"))
    search = TimedSearch(cluster, times=read_batch_times(event))
    found = search.answer()

    of_snapshot = int(found["complete"])
    assert cluster.kube.asked.count("GET /api/v1/pods") - of_snapshot == lists
    assert (found["complete"], search.slept) == (lists > 1, [0.5] * (lists - 1))


# A busy API server


def growing(cluster: SimulatedCluster) -> Mapping[int, Callable[[], object]]:
    """Return one more pod for each pause."""
    return {number: partial(cluster.kube.put, pending(f"web-{number + 1}")) for number in range(1, 30)}


def test_the_time_of_slow_lists_counts_as_time_without_a_new_pod(cluster: SimulatedCluster) -> None:
    cluster.prepare(replica_set("web", 8, 1), pending("web-1"))
    search = TimedSearch(cluster, listing=4.0)
    found = search.answer()

    assert (found["complete"], search.slept) == (True, [0.5])


def test_the_time_of_slow_lists_counts_as_time_that_the_batch_gathered(cluster: SimulatedCluster) -> None:
    cluster.prepare(replica_set("web", 99, 1), pending("web-1"))
    search = TimedSearch(cluster, growing(cluster), BatchTimes(idle=1, longest=10), listing=4.0)
    found = search.answer()

    assert (found["complete"], search.slept) == (True, [0.5] * 3)  # the fourth list begins after 13.5 seconds


def test_a_search_leaves_a_batch_that_grows_to_the_next_one_before_its_function_is_stopped(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(replica_set("web", 99, 1), pending("web-1"))
    search = TimedSearch(cluster, growing(cluster), BatchTimes(idle=1, longest=60), listing=9.0, lasts=45.0)
    found = search.answer()

    assert (found["complete"], found["snapshot"], found["pods"]) == (False, "", 4)
    assert search.clock() == 37.5  # a fifth list might end after the function
    assert found["gathering"] == {"waited": 38.5, "pods": 4, "idle": 0, "pause": 10.0}  # with the machine's pause

    again = search.answer(Gathering.from_json(found["gathering"]))
    assert again["complete"]  # no pod came for ten seconds


def test_a_batch_that_is_complete_too_late_gets_its_snapshot_from_the_next_search(cluster: SimulatedCluster) -> None:
    cluster.prepare(replica_set("web", 2, 1), pending("web-1"))
    search = TimedSearch(cluster, {1: lambda: cluster.kube.put(pending("web-2"))}, listing=17.0, lasts=45.0)
    found = search.answer()

    assert (found["complete"], found["snapshot"], found["pods"]) == (False, "", 2)
    assert search.answer(Gathering.from_json(found["gathering"]))["podsToPlan"] == 2


def test_a_single_pod_without_a_controller_waits_for_nothing_and_its_pods_are_listed_twice(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(bare("job-1"))
    search = TimedSearch(cluster)
    found = search.answer()

    assert (found["complete"], found["podsToPlan"], search.slept) == (True, 1, [])
    assert cluster.kube.asked.count("GET /api/v1/pods") == 2  # those without a node, and then all


@pytest.mark.parametrize("tried", [True, False])
def test_pods_without_a_controller_that_come_while_the_snapshot_is_taken_are_in_one_plan(
    cluster: SimulatedCluster, tried: bool
) -> None:
    cluster.prepare(bare("job-1"))

    def come(*numbers: int, tried: bool = True) -> None:
        for number in numbers:
            cluster.kube.put(bare(f"job-{number}", tried=tried))

    when_listing_pools(cluster, lambda: come(2, 3, 4, tried=tried))
    search = TimedSearch(cluster, {1: lambda: come(2, 3, 4, 5, 6, 7)})
    found = search.answer()

    assert (found["complete"], found["pods"]) == (True, 7)
    assert planned_pods(cluster, found) == {f"default/job-{number}" for number in range(1, 8)}
    assert set(search.slept) == {0.5}


@pytest.mark.parametrize("kind", ["Job", "ReplicaSet"])
def test_a_pod_of_a_controller_that_is_about_to_be_bound_delays_no_single_pod(
    cluster: SimulatedCluster, kind: str
) -> None:
    cluster.prepare(bare("job-1"))
    owner = {"kind": kind, "name": "nightly-1", "uid": "uid-nightly", "controller": True}
    untried = bare("nightly-1-x", tried=False)
    untried["metadata"]["ownerReferences"] = [owner]

    when_listing_pools(cluster, lambda: cluster.kube.put(untried))
    search = TimedSearch(cluster)
    found = search.answer()

    assert (found["complete"], found["podsToPlan"], search.slept) == (True, 1, [])
    assert "default/nightly-1-x" in planned_pods(cluster, found)
    assert cluster.kube.asked.count("GET /api/v1/pods") == 2  # those without a node, and then all


def test_a_deployment_whose_first_pods_come_while_the_snapshot_of_another_is_taken_is_planned_as_a_whole(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(replica_set("web", 1, 1), pending("web-1"))

    def begins() -> None:
        cluster.kube.put(replica_set("api", 2, 1))
        cluster.kube.put(owned_by_api("api-1"))

    def owned_by_api(name: str) -> dict[str, Any]:
        pod = pending(name)
        owner = {**pod["metadata"]["ownerReferences"][0], "name": "api", "uid": "uid-api"}
        return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}}

    when_listing_pools(cluster, begins)
    search = TimedSearch(cluster, {1: lambda: cluster.kube.put(owned_by_api("api-2"))})
    found = search.answer()

    assert (found["complete"], search.slept) == (True, [0.5])
    assert planned_pods(cluster, found) == {"default/web-1", "default/api-1", "default/api-2"}


def test_pods_that_keep_coming_after_the_snapshot_end_the_search_as_incomplete(cluster: SimulatedCluster) -> None:
    cluster.prepare(bare("job-0"))
    arrivals = iter(range(1, 99))

    def one_more() -> None:
        cluster.kube.put(bare(f"job-{next(arrivals)}"))

    when_listing_pools(cluster, one_more)
    search = TimedSearch(cluster, dict.fromkeys(range(1, 9), one_more), BatchTimes(looks_again=4))
    found = search.answer()

    assert (found["complete"], found["snapshot"], found["pods"], search.slept) == (False, "", 6, [0.5] * 4)
    assert found["gathering"]["waited"] == 3


# Other autoscalers


def autoscaler_lease(cluster: SimulatedCluster, name: str) -> dict[str, Any]:
    spec = {"holderIdentity": f"{name}-0", "renewTime": f"{cluster.now:%Y-%m-%dT%H:%M:%S.%fZ}"}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": spec,
    }


def test_an_autoscaler_that_does_not_refuse_is_reported_once_when_the_batch_is_complete(
    cluster: SimulatedCluster,
) -> None:
    lease = autoscaler_lease(cluster, "cluster-autoscaler")
    cluster.prepare(replica_set("web", 6, 1), lease, pending("web-0"))
    arrivals = {pause: partial(cluster.kube.put, pending(f"web-{pause}")) for pause in range(1, 6)}
    search = TimedSearch(cluster, arrivals, BatchTimes(looks_again=4))

    assert (search.answer()["complete"], search.slept, cluster.kube.all(kinds.EVENTS)) == (False, [0.5] * 4, [])
    found = search.answer()
    assert (found["complete"], found["pods"]) == (True, 6)

    assert [event["reason"] for event in cluster.kube.all(kinds.EVENTS)] == ["ClusterAutoscalerRuns"]


def test_beside_another_autoscaler_no_pod_is_recorded_while_a_batch_gathers(cluster: SimulatedCluster) -> None:
    lease = autoscaler_lease(cluster, "karpenter-leader-election")
    cluster.prepare(replica_set("web", 99, 25), lease, *(pending(f"web-{number}") for number in range(25)))
    search = TimedSearch(cluster)

    assert search.answer()["refused"] == "KarpenterRuns"
    written = [asked for asked in cluster.kube.asked if not asked.startswith("GET")]
    assert written
    assert {asked.rpartition("/")[2] for asked in written} == {"events"}
    assert [event["reason"] for event in cluster.kube.all(kinds.EVENTS)] == ["KarpenterRuns"]
