"""A snapshot keeps everything of the cluster that a plan needs."""

from typing import Any

from joiner.planning import Snapshot
from tests.unit.planning.drawn_clusters import HOST, affinity, near, node_pool, planned, pod, running
from tests.unit.planning.oracle import CASES, OracleCase


def test_a_trimmed_snapshot_gives_the_same_plan() -> None:
    for path in sorted(CASES.glob("*.json"))[:12]:
        case = OracleCase.read(path)
        trimmed = OracleCase(case.name, case.features, Snapshot.trim(case.lists), case.catalogue, case.expected)

        assert trimmed.plan() == case.plan()


def test_environments_commands_and_annotations_of_pods_are_not_kept() -> None:
    secretive = pod("web-0")
    secretive["metadata"] |= {"annotations": {"password": "hunter2"}, "managedFields": [{"manager": "kubectl"}]}
    secretive["spec"]["containers"][0] |= {
        "env": [{"name": "PASSWORD", "value": "hunter2"}],
        "command": ["sh", "-c", "echo hunter2"],
    }

    assert "hunter2" not in str(Snapshot.trim({"pods": [secretive]}))


def test_items_of_a_list_need_no_kind() -> None:
    pool = {name: value for name, value in node_pool().items() if name not in ("kind", "apiVersion")}

    assert [one.key for one in Snapshot.from_lists({"nodepools": [pool]}).pools] == ["NodePool/default"]


def test_a_priority_class_gives_a_pod_its_priority_where_admission_has_not() -> None:
    named: list[dict[str, Any]] = [
        pod("a", priorityClassName="high"),
        pod("b", priorityClassName="system-node-critical"),
        pod("c"),
    ]
    snapshot = Snapshot.from_lists({"pods": named, "priorityclasses": [{"metadata": {"name": "high"}, "value": 1000}]})

    assert [one.priority for one in snapshot.pods] == [1000, 2000001000, 0]


def test_pods_that_are_over_hold_nothing() -> None:
    done = running("done", "there", cpu="4", **affinity(podAntiAffinity=[near(HOST, "web")]))
    done["status"] = {"phase": "Succeeded"}
    plan = planned({"pods": [done, pod("web-0")], "nodes": [], "nodepools": [node_pool()]})

    assert len(plan.nodes) == 1


def test_a_stored_snapshot_keeps_what_a_pod_has_during_a_resize() -> None:
    whole = {"requests": {"cpu": "1"}}
    status = {"phase": "Running", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}}
    resized = {**pod("web", resources=whole), "status": status}

    [stored] = Snapshot.from_lists(Snapshot.trim({"pods": [resized]})).pods
    assert stored.requests.to_kube()["cpu"] == "3"
