"""What the recorder of a cluster returns: changes of all kinds in one order, also if a watch was cut, and who removed
what.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import urllib3

from joiner_local.control_plane.kube_api import Object
from tests.e2e.cluster_history import ClusterRecorder, Removal

PODS: Final = "/api/v1/pods"
NODES: Final = "/api/v1/nodes"
MACHINES: Final = "/apis/karpenter.sh/v1alpha5/machines"


class WatchedLists:
    """An API server with lists and watches; `cut` ends the watch of a list, and what happened before is forgotten."""

    def __init__(self) -> None:
        self.lists: dict[str, dict[str, Object]] = defaultdict(dict)
        self.revision = 10
        self.missing: set[str] = {MACHINES}
        self._events: dict[str, list[tuple[int, str, Object]]] = defaultdict(list)
        self._cuts: Counter[str] = Counter()

    def put(self, path: str, name: str, **spec: Any) -> None:
        event = "MODIFIED" if name in self.lists[path] else "ADDED"
        self.revision += 1
        found = {"metadata": {"name": name, "resourceVersion": str(self.revision)}, "spec": spec}
        self.lists[path] = {**self.lists[path], name: found}
        self._events[path].append((self.revision, event, found))

    def remove(self, path: str, name: str) -> None:
        found = self.lists[path][name]
        self.revision += 1
        self.lists[path] = {key: each for key, each in self.lists[path].items() if key != name}
        metadata = {**found["metadata"], "resourceVersion": str(self.revision)}
        self._events[path].append((self.revision, "DELETED", {**found, "metadata": metadata}))

    def cut(self, path: str) -> None:
        self._cuts[path] += 1
        self._events[path] = []

    # --- as KubeApi

    def find(self, path: str) -> Object | None:
        if path in self.missing:
            return None
        version = self.revision
        return {"items": list(self.lists[path].values()), "metadata": {"resourceVersion": str(version)}}

    def watch(self, path: str, *, version: str, seconds: int) -> Iterator[tuple[str, Object]]:
        assert seconds > 0
        cuts, last = self._cuts[path], int(version)
        while self._cuts[path] == cuts:
            for revision, event, found in list(self._events[path]):
                if revision > last:
                    last = revision
                    yield event, found
            time.sleep(0.01)
        raise urllib3.exceptions.ProtocolError("the watch was cut")


class Instances:
    """EC2 with these running instances."""

    def __init__(self, *running: str) -> None:
        self.running = list(running)

    def get_paginator(self, name: str) -> "Instances":
        assert name == "describe_instances"
        return self

    def paginate(self, **_: Any) -> list[Mapping[str, Any]]:
        return [{"Reservations": [{"Instances": [{"InstanceId": each} for each in self.running]}]}]


@pytest.fixture
def api() -> WatchedLists:
    made = WatchedLists()
    made.put(NODES, "a")
    return made


@pytest.fixture
def recorder(api: WatchedLists, tmp_path: Path) -> ClusterRecorder:
    made = ClusterRecorder(api, Instances("i-1"), tmp_path / "audit.log")  # type: ignore[arg-type]
    made.forget()
    return made


def seen(recorder: ClusterRecorder) -> list[tuple[str, str, bool]]:
    """Return kind and key of each change, and whether it was a deletion."""
    return [(each.kind, each.key, each.found is None) for each in recorder.record().changes]


def test_changes_of_all_kinds_are_in_the_order_in_which_they_happened(
    api: WatchedLists, recorder: ClusterRecorder
) -> None:
    api.put(PODS, "web", nodeName="a")
    api.put(NODES, "a", unschedulable=True)
    api.remove(PODS, "web")

    assert seen(recorder) == [("pod", "web", False), ("node", "a", False), ("pod", "web", True)]
    assert recorder.record().start.keys() == {("node", "a")}


def test_what_happened_while_a_watch_was_cut_is_seen_afterwards(api: WatchedLists, recorder: ClusterRecorder) -> None:
    api.put(PODS, "web")
    api.put(PODS, "db")
    assert len(seen(recorder)) == 2
    api.cut(PODS)
    api.remove(PODS, "web")
    api.put(PODS, "api")

    changes = seen(recorder)
    assert ("pod", "web", True) in changes
    assert ("pod", "api", False) in changes
    assert ("pod", "db", True) not in changes


def test_a_kind_whose_definition_is_deleted_has_no_objects(api: WatchedLists, recorder: ClusterRecorder) -> None:
    api.missing.add(NODES)
    api.cut(NODES)
    assert seen(recorder) == [("node", "a", True)]


def test_a_part_of_a_record_begins_with_the_objects_of_that_time(api: WatchedLists, recorder: ClusterRecorder) -> None:
    api.put(PODS, "web")
    recorder.record()
    since = time.time()
    api.put(PODS, "db")

    part = recorder.record(since)
    assert part.start.keys() == {("node", "a"), ("pod", "web")}
    assert [each.key for each in part.changes] == ["db"]


def test_removals_are_read_from_the_audit_log_once_they_are_written_whole(
    recorder: ClusterRecorder, tmp_path: Path
) -> None:
    event = {
        "verb": "delete",
        "user": {"username": "kubernetes-admin"},
        "objectRef": {"resource": "nodes", "name": "a"},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "1970-01-01T00:00:01Z",
    }
    whole = json.dumps(event) + "\n"
    log = tmp_path / "audit.log"
    log.write_text(whole + whole[:20])
    removal = Removal(1.0, "delete", "node", "a", "kubernetes-admin", ours=False)
    assert recorder.record().removals == (removal,)
    log.write_text(whole + whole)
    assert recorder.record().removals == (removal, removal)
    recorder.forget()
    assert recorder.record().removals == ()


def test_an_instance_has_ended_when_ec2_does_not_show_it_running_any_more(api: WatchedLists, tmp_path: Path) -> None:
    running = Instances("i-1", "i-2")
    recorder = ClusterRecorder(api, running, tmp_path / "audit.log")  # type: ignore[arg-type]
    recorder.record()
    running.running.remove("i-2")
    end = time.time() + 10
    while not (ended := recorder.record().ended) and time.time() < end:
        time.sleep(0.1)
    assert ended.keys() == {"i-2"}
