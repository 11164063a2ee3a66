"""The marks in our requests that the admission policies require: without them the cluster refuses the requests
(manifests/policies).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Manifest
from joiner.adapters.kube_errors import Conflict
from joiner.adapters.kube_nodes import delete_pod
from joiner.cluster import Pod
from joiner.names import LEAVING, NODE_OF_POD, PLACED
from tests.unit.functions.fake_kube import FakeKube


class Recorder(FakeKube):
    """Records the requests that it gets."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        super().__init__(objects)
        self.sent: list[tuple[str, Any]] = []

    def ask(
        self, method: str, path: str, body: Manifest | Sequence[Mapping[str, Any]] | None = None, **how: Any
    ) -> Manifest:
        self.sent.append((method, body))
        return super().ask(method, path, body, **how)


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "uid": "u-1", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main"}]},
}


def test_a_binding_has_one_label_and_no_annotation() -> None:
    kube = Recorder(POD)

    kube.bind("default", "web", "node-1", uid="u-1")  # shard 1, by the node's name

    (_, body) = kube.sent[0]
    assert body["metadata"] == {"name": "web", "namespace": "default", "labels": {PLACED: "1"}, "uid": "u-1"}
    assert body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "node-1"}


def test_an_eviction_names_its_node() -> None:
    kube = Recorder(POD)

    kube.evict("default", "web", node="node-1", uid="u-1")

    (_, body) = kube.sent[0]
    assert body["metadata"]["labels"] == {LEAVING: "true"}
    assert body["metadata"]["annotations"] == {NODE_OF_POD: "node-1"}


def test_a_pod_is_labelled_and_then_deleted() -> None:
    kube = Recorder(POD)

    delete_pod(kube, "default", "web", uid="u-1", grace=7)

    assert [method for method, _ in kube.sent] == ["PATCH", "DELETE"]
    assert kube.sent[0][1] == {"metadata": {"uid": "u-1", "labels": {LEAVING: "true"}}}
    assert (kube.sent[1][1]["gracePeriodSeconds"], kube.sent[1][1]["preconditions"]) == (7, {"uid": "u-1"})
    assert kube.all(kinds.PODS) == []


def test_another_pod_of_the_name_is_neither_labelled_nor_deleted() -> None:
    kube = Recorder(POD)

    with pytest.raises(Conflict):
        delete_pod(kube, "default", "web", uid="u-0", grace=0)

    assert kube.all(kinds.PODS)[0]["metadata"]["labels"] == {"app": "web"}


def test_a_pod_that_joiner_placed_is_of_the_class_that_it_was_planned_as() -> None:
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    constraints = [{**spread, "labelSelector": {"matchLabels": {"app": "web"}}}]
    spec = {**POD["spec"], "topologySpreadConstraints": constraints}  # type: ignore[dict-item]
    planned = Pod.from_kube({**POD, "spec": spec})
    placed = Pod.from_kube({**POD, "metadata": {"name": "web", "labels": {"app": "web", PLACED: "1"}}, "spec": spec})

    assert planned.class_key == placed.class_key
