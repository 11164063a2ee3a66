"""Passes of one check of registrations: nodes that become Ready while it works get their pods in the same check."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, IncompleteReadError, ReadTimeoutError

from functions.check_registration.handler import BETWEEN_PASSES, RegistrationCheck, read_stored_events
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel_calls import TimeLeft
from joiner.adapters.store import Store
from joiner.lifecycle.node_deadlines import CLOSED_FOR_THE_WAVE
from joiner.names import FILLING
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending


class Course:
    """A clock that only pauses advance; `meanwhile` happens in the pause of its number."""

    def __init__(self, meanwhile: dict[int, Callable[[], None]]) -> None:
        self.pauses: list[float] = []
        self.seconds = 0.0
        self._meanwhile = meanwhile

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.pauses.append(seconds)
        self._meanwhile.get(len(self.pauses), lambda: None)()


def launched(cluster: SimulatedCluster, *pods: dict[str, Any]) -> SimulatedCluster:
    """Return a cluster whose nodes were launched and have not booted."""
    cluster.prepare(*pods)
    cluster.stop_after = "record_launches"
    cluster.scale_up("up-1")
    cluster.stop_after = ""
    return cluster


def check(
    cluster: SimulatedCluster, course: Course, *, seconds: float = 15.0, left: TimeLeft | None = None
) -> dict[str, Any]:
    one = RegistrationCheck(
        cluster.kube,
        cluster.ledger,
        course.sleep,
        time_left=left or TimeLeft(),
        seconds=seconds,
        clock=lambda: course.seconds,
    )
    return one.answer("up-1", cluster.now)


def become_ready(node: dict[str, Any], ready: bool = True) -> None:
    node["status"]["conditions"][0]["status"] = str(ready)


def may_open_before_others(cluster: SimulatedCluster, node: dict[str, Any]) -> None:
    """Set the time of the node's condition: it was Ready so long ago that it need not wait for others."""
    since = cluster.now - CLOSED_FOR_THE_WAVE - timedelta(seconds=1)
    node["status"]["conditions"][0]["lastTransitionTime"] = since.strftime("%Y-%m-%dT%H:%M:%SZ")


def nodes_of_pods(cluster: SimulatedCluster) -> list[str]:
    return sorted(str(pod["spec"].get("nodeName", "")) for pod in cluster.kube.all(kinds.PODS))


def closed(cluster: SimulatedCluster) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in cluster.kube.all(kinds.NODES)
        if FILLING in [taint["key"] for taint in node["spec"]["taints"]]
    ]


def test_a_node_that_becomes_ready_during_a_check_gets_its_pods_in_it_and_all_open(cluster: SimulatedCluster) -> None:
    launched(cluster, pending("web-1"), pending("web-2")).boot()
    _, other = cluster.kube.all(kinds.NODES)
    become_ready(other, False)
    course = Course({1: lambda: become_ready(other)})

    answer = check(cluster, course)

    assert (answer["done"], answer["initialized"], answer["podsPlaced"]) == (True, 2, 2)
    assert (nodes_of_pods(cluster), closed(cluster)) == (["node-i-0000", "node-i-0001"], [])
    # The node that gets its pods in the second pass opens a second later; the first one has waited a part of that
    assert course.pauses == [BETWEEN_PASSES, 1.0]


def test_a_pass_that_fails_ends_the_check_and_loses_nothing_of_the_pass_before(cluster: SimulatedCluster) -> None:
    launched(cluster, pending("web-1"), pending("web-2")).boot()
    _, other = cluster.kube.all(kinds.NODES)
    become_ready(other, False)

    def fail() -> None:
        cluster.kube.fault = unavailable

    def unavailable(method: str, path: str, do: Any) -> Any:
        if method == "GET" and path.endswith("/nodes"):
            raise KubeError("the API server is unavailable", status=503)
        return do()

    answer = check(cluster, Course({1: fail}))

    assert (answer["done"], answer["initialized"], answer["registered"]) == (False, 0, 2)
    assert "Registered" in [each["reason"] for each in cluster.kube.all(kinds.EVENTS)]


class FailingUpdates:
    """A client of DynamoDB that fails to update an item of the kind WAVE with such an expression while it is `on`."""

    def __init__(self, client: Any, expression: str, error: Exception, *, on: bool = True) -> None:
        self.client = client
        self.expression = expression
        self.error = error
        self.on = on

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def update_item(self, **asked: Any) -> Any:
        if self.on and asked["Key"]["kind"] == {"S": "WAVE"} and self.expression in asked["UpdateExpression"]:
            raise self.error
        return self.client.update_item(**asked)


THROTTLED = ClientError({"Error": {"Code": "ProvisionedThroughputExceededException", "Message": ""}}, "UpdateItem")
NO_ANSWER = ReadTimeoutError(endpoint_url="https://dynamodb")
TROUBLE = pytest.mark.parametrize("error", [THROTTLED, NO_ANSWER], ids=["throttled", "no answer"])


@TROUBLE
def test_a_pass_that_cannot_read_its_wave_ends_the_check_and_loses_nothing_of_the_pass_before(
    cluster: SimulatedCluster, error: Exception
) -> None:
    launched(cluster, pending("web-1"), pending("web-2")).boot()
    _, other = cluster.kube.all(kinds.NODES)
    become_ready(other, False)
    table = FailingUpdates(cluster.ledger._client, "seenAt", error, on=False)
    cluster.ledger = Ledger(table, cluster.ledger._table)

    answer = check(cluster, Course({1: lambda: setattr(table, "on", True)}))

    assert (answer["done"], answer["initialized"], answer["registered"]) == (False, 0, 2)
    assert "Registered" in [each["reason"] for each in cluster.kube.all(kinds.EVENTS)]


@TROUBLE
def test_a_wave_whose_pods_cannot_be_counted_opens_its_nodes_and_reports_them(
    cluster: SimulatedCluster, error: Exception
) -> None:
    launched(cluster, pending("web-1")).boot()
    cluster.ledger = Ledger(FailingUpdates(cluster.ledger._client, "ADD planned", error), cluster.ledger._table)

    answer = check(cluster, Course({}))

    assert (answer["done"], answer["initialized"], answer["podsPlaced"]) == (True, 1, 0)
    assert closed(cluster) == []
    assert "Initialized" in [each["reason"] for each in cluster.kube.all(kinds.EVENTS)]


class FailingDocuments:
    """A client of S3 that has no answer in time, or one that is cut."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def get_object(self, **_asked: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    "error",
    [ReadTimeoutError(endpoint_url="https://s3"), IncompleteReadError(actual_bytes=1, expected_bytes=2), EOFError()],
    ids=lambda error: type(error).__name__,
)
def test_events_that_cannot_be_read_keep_no_node_closed(error: Exception) -> None:
    assert read_stored_events(Store(FailingDocuments(error), "decisions"), ["events/up-1/1-planned.json.gz"]) == []


def test_a_node_opens_a_second_after_its_bindings_while_another_boots(cluster: SimulatedCluster) -> None:
    launched(cluster, pending("web-1"), pending("web-2")).boot()
    first, other = cluster.kube.all(kinds.NODES)
    may_open_before_others(cluster, first)
    become_ready(other, False)
    seen: list[list[str]] = []
    course = Course(dict.fromkeys(range(1, 9), lambda: seen.append(closed(cluster))))

    answer = check(cluster, course)

    assert (answer["done"], answer["settling"], answer["initialized"], answer["waiting"]) == (False, 0, 1, 1)
    assert closed(cluster) == [other["metadata"]["name"]]
    assert course.pauses == [BETWEEN_PASSES] * 4  # a second
    assert all(first["metadata"]["name"] in names for names in seen)


@pytest.mark.parametrize(("ago", "seconds"), [(0, 6), (2, 4)])
def test_a_filled_node_that_waits_for_others_opens_in_the_check_that_is_due_then(
    cluster: SimulatedCluster, ago: int, seconds: int
) -> None:
    launched(cluster, pending("web-1"), pending("web-2")).boot()
    first, other = cluster.kube.all(kinds.NODES)
    ready = cluster.now - timedelta(seconds=ago)
    first["status"]["conditions"][0]["lastTransitionTime"] = ready.strftime("%Y-%m-%dT%H:%M:%SZ")
    become_ready(other, False)

    before = check(cluster, Course({}), seconds=0.0)
    cluster.now += timedelta(seconds=seconds - 1)
    early = check(cluster, Course({}), seconds=0.0)
    cluster.now += timedelta(seconds=1)
    after = check(cluster, Course({}), seconds=0.0)

    assert [(each["settling"], each["opensIn"]) for each in (before, early, after)] == [(0, seconds), (0, 1), (0, 0)]
    assert [each["initialized"] for each in (before, early, after)] == [0, 0, 1]
    assert closed(cluster) == [other["metadata"]["name"]]


def test_a_ring_during_a_pass_leads_to_another_one_and_none_ends_the_check(cluster: SimulatedCluster) -> None:
    launched(cluster, pending("web-1"))
    rung = iter([True, True, False])

    def ring(_method: str, path: str, do: Any) -> Any:
        if path.endswith("/nodes") and next(rung):
            cluster.machine.ring_wave("up-1", at=cluster.now.timestamp() - 60)
        return do()

    cluster.kube.fault = ring
    course = Course({})

    answer = check(cluster, course)

    assert (answer["rings"], course.pauses) == (2, [BETWEEN_PASSES] * 2)


def test_passes_follow_until_the_change_behind_a_ring_is_stored(cluster: SimulatedCluster) -> None:
    launched(cluster, pending("web-1"))
    cluster.machine.ring_wave("up-1", at=cluster.now.timestamp())
    course = Course({2: cluster.boot})

    answer = check(cluster, course)

    assert (answer["done"], answer["podsPlaced"]) == (True, 1)
    assert course.pauses == [BETWEEN_PASSES, BETWEEN_PASSES, 1.0]


def test_a_ring_is_not_counted_by_a_check_that_ends_before_its_node_is_stored(cluster: SimulatedCluster) -> None:
    """The execution compares the rings before it waits; it checks again at once."""
    launched(cluster, pending("web-1"))
    cluster.machine.ring_wave("up-1", at=cluster.now.timestamp())

    early = check(cluster, Course({}), seconds=0.1)
    cluster.now += timedelta(seconds=1)
    later = check(cluster, Course({}), seconds=0.1)

    assert (early["done"], early["rings"], later["rings"]) == (False, 0, 1)


def test_a_check_begins_no_pass_after_its_time_and_leaves_filled_nodes_to_the_next(cluster: SimulatedCluster) -> None:
    launched(cluster, pending("web-1"), pending("web-2")).boot()
    first, other = cluster.kube.all(kinds.NODES)
    may_open_before_others(cluster, first)
    become_ready(other, False)

    course = Course({})
    answer = check(cluster, course, seconds=0.5)
    assert (answer["settling"], course.pauses) == (1, [BETWEEN_PASSES] * 2)


def test_a_check_begins_no_pass_when_its_invocation_ends(cluster: SimulatedCluster) -> None:
    launched(cluster, pending("web-1"))
    cluster.machine.ring_wave("up-1", at=cluster.now.timestamp())
    course = Course({})

    answer = check(cluster, course, left=TimeLeft(lambda: 11.0))

    assert (answer["done"], course.pauses) == (False, [])


def test_events_of_all_passes_are_written(cluster: SimulatedCluster) -> None:
    launched(cluster, pending("web-1"), pending("web-2")).boot()
    _, other = cluster.kube.all(kinds.NODES)
    become_ready(other, False)

    check(cluster, Course({1: lambda: become_ready(other)}))

    nodes = {node["metadata"]["name"] for node in cluster.kube.all(kinds.NODES)}
    events = {(each["regarding"]["name"], each["reason"]) for each in cluster.kube.all(kinds.EVENTS)}
    assert {name for name, reason in events if reason == "Registered"} >= nodes
    assert {name for name, reason in events if reason == "Initialized"} >= nodes


def test_a_claim_whose_progress_stays_the_same_is_logged_once(
    cluster: SimulatedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    launched(cluster, pending("web-1"), pending("web-2")).boot()
    first, other = cluster.kube.all(kinds.NODES)
    may_open_before_others(cluster, first)
    become_ready(other, False)
    course = Course({})

    with caplog.at_level("INFO"):
        check(cluster, course)

    assert len(course.pauses) == 4
    assert [each.getMessage() for each in caplog.records].count("the node is not Ready") == 1
