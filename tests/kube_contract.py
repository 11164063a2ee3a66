"""The contract of an API server that Joiner relies on, for the real one (tests/e2e) and the fake of unit tests.

Each test uses a client and creates objects with unique names.
"""

import uuid
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import AlreadyExists, Conflict, NotFound

NAMESPACE = "default"


def fresh(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a pod that no scheduler places."""
    containers = [{"name": "main", "image": "pause"}]
    return {
        "metadata": {"name": name, "labels": {"made-by": name}},
        "spec": {"schedulerName": "nobody", "containers": containers, **spec},
    }


def claim(name: str) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {
        "nodeClassRef": reference,
        "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
    }
    return {"metadata": {"name": name, "finalizers": ["karpenter.sh/termination"]}, "spec": spec}


class KubeContract:
    """Subclass it with a fixture `client`."""

    def test_a_created_object_can_be_read_and_listed(self, client: Kube) -> None:
        name = fresh("pod")
        made = client.create(kinds.PODS, pod(name), namespace=NAMESPACE)

        read = client.get(kinds.PODS, name, namespace=NAMESPACE)
        listed = client.list(kinds.PODS, labels=f"made-by={name}")
        without = client.list(kinds.PODS, labels="!made-by")

        assert name not in [each["metadata"]["name"] for each in without]
        assert made["metadata"]["uid"] == read["metadata"]["uid"] != ""
        assert [each["metadata"]["name"] for each in listed] == [name]
        client.delete(kinds.PODS, name, namespace=NAMESPACE)

    def test_a_name_cannot_be_created_twice(self, client: Kube) -> None:
        name = fresh("node")
        client.create(kinds.NODES, {"metadata": {"name": name}})

        with pytest.raises(AlreadyExists):
            client.create(kinds.NODES, {"metadata": {"name": name}})
        client.delete(kinds.NODES, name)

    def test_a_missing_object_is_not_found(self, client: Kube) -> None:
        for ask in (
            lambda: client.get(kinds.NODES, "nobody"),
            lambda: client.delete(kinds.NODES, "nobody"),
            lambda: client.patch(kinds.NODES, "nobody", {"metadata": {"labels": {"a": "b"}}}),
            lambda: client.bind(NAMESPACE, "nobody", "node-1", uid="uid-of-nobody"),
        ):
            with pytest.raises(NotFound):
                ask()

    def test_a_merge_patch_keeps_other_fields_and_replaces_lists(self, client: Kube) -> None:
        name = fresh("node")
        taints = [{"key": "one", "effect": "NoSchedule"}, {"key": "two", "effect": "NoSchedule"}]
        client.create(kinds.NODES, {"metadata": {"name": name, "labels": {"kept": "yes"}}, "spec": {"taints": taints}})

        after = client.patch(
            kinds.NODES, name, {"metadata": {"labels": {"new": "yes"}}, "spec": {"taints": taints[1:]}}
        )

        assert after["metadata"]["labels"].items() >= {"kept": "yes", "new": "yes"}.items()
        assert [
            taint["key"] for taint in after["spec"]["taints"] if not taint["key"].startswith("node.kubernetes.io")
        ] == ["two"]
        client.delete(kinds.NODES, name)

    def test_a_patch_of_an_older_version_is_a_conflict(self, client: Kube) -> None:
        name = fresh("node")
        made = client.create(kinds.NODES, {"metadata": {"name": name}})
        client.patch(kinds.NODES, name, {"metadata": {"labels": {"a": "1"}}})

        with pytest.raises(Conflict):
            old = made["metadata"]["resourceVersion"]
            client.patch(kinds.NODES, name, {"metadata": {"resourceVersion": old, "labels": {"a": "2"}}})
        client.delete(kinds.NODES, name)

    def test_status_is_a_subresource(self, client: Kube) -> None:
        name = fresh("claim")
        client.create(kinds.NODECLAIMS, {**claim(name), "status": {"providerID": "ignored"}})
        client.patch(kinds.NODECLAIMS, name, {"metadata": {"labels": {"a": "b"}}, "status": {"providerID": "ignored"}})
        assert "providerID" not in client.get(kinds.NODECLAIMS, name).get("status", {})

        after = client.patch(
            kinds.NODECLAIMS, name, {"status": {"providerID": "aws:///us-east-1a/i-1"}}, subresource="status"
        )

        assert after["status"]["providerID"] == "aws:///us-east-1a/i-1"
        assert after["metadata"]["labels"] == {"a": "b"}
        self.end_of(client, name)

    def test_a_dry_run_creates_nothing_and_refuses_a_name_that_is_taken(self, client: Kube) -> None:
        name = fresh("claim")
        client.create(kinds.NODECLAIMS, claim(name), dry_run=True)
        with pytest.raises(NotFound):
            client.get(kinds.NODECLAIMS, name)

        client.create(kinds.NODECLAIMS, claim(name))

        with pytest.raises(AlreadyExists):
            client.create(kinds.NODECLAIMS, claim(name), dry_run=True)
        self.end_of(client, name)

    def test_a_finalizer_keeps_a_deleted_object(self, client: Kube) -> None:
        name = fresh("claim")
        client.create(kinds.NODECLAIMS, claim(name))
        client.delete(kinds.NODECLAIMS, name)
        assert client.get(kinds.NODECLAIMS, name)["metadata"]["deletionTimestamp"]

        client.patch(kinds.NODECLAIMS, name, {"metadata": {"finalizers": None}})

        with pytest.raises(NotFound):
            client.get(kinds.NODECLAIMS, name)

    def test_a_delete_with_a_precondition_deletes_only_that_object(self, client: Kube) -> None:
        name = fresh("claim")
        client.create(kinds.NODECLAIMS, claim(name))

        with pytest.raises(Conflict):
            client.delete(kinds.NODECLAIMS, name, uid="00000000-0000-0000-0000-000000000000")
        assert "deletionTimestamp" not in client.get(kinds.NODECLAIMS, name)["metadata"]
        self.end_of(client, name)

    def test_a_pod_is_bound_once_and_only_with_its_uid_whatever_its_version(self, client: Kube) -> None:
        name = fresh("pod")
        made = client.create(kinds.PODS, pod(name), namespace=NAMESPACE)["metadata"]
        with pytest.raises(Conflict):
            client.bind(NAMESPACE, name, "node-1", uid="00000000-0000-0000-0000-000000000000")

        client.patch(kinds.PODS, name, {"metadata": {"labels": {"tried": "once"}}}, namespace=NAMESPACE)
        client.bind(NAMESPACE, name, "node-1", uid=made["uid"])

        assert client.get(kinds.PODS, name, namespace=NAMESPACE)["spec"]["nodeName"] == "node-1"
        with pytest.raises(Conflict):
            client.bind(NAMESPACE, name, "node-2", uid=made["uid"])
        client.delete(kinds.PODS, name, namespace=NAMESPACE)

    def test_a_repeated_event_already_exists(self, client: Kube) -> None:
        name = fresh("event")
        about = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        event = {
            "metadata": {"name": name, "namespace": NAMESPACE},
            "eventTime": "2026-11-21T05:17:28.123456Z",
            "lastTimestamp": "2026-11-21T05:17:28Z",
            "reportingComponent": "joiner.dev/joiner",
            "reportingInstance": "up-1",
            "involvedObject": about,
            "reason": "Registered",
            "action": "Register",
            "message": "it joined",
            "type": "Normal",
        }
        client.create(kinds.CORE_EVENTS, event, namespace=NAMESPACE)

        with pytest.raises(AlreadyExists):
            client.create(kinds.CORE_EVENTS, event, namespace=NAMESPACE)
        newer = client.get(kinds.EVENTS, name, namespace=NAMESPACE)
        assert (newer["note"], newer["reportingController"]) == ("it joined", "joiner.dev/joiner")
        assert newer["deprecatedLastTimestamp"] == "2026-11-21T05:17:28Z"

    def end_of(self, client: Kube, name: str) -> None:
        client.patch(kinds.NODECLAIMS, name, {"metadata": {"finalizers": None}})
        client.delete(kinds.NODECLAIMS, name)
