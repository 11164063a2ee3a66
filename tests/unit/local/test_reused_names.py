"""Names of nodes that are used again: an address is given to another instance."""

from typing import Any

from joiner_local.control_plane.kube_api import KubeApi, Object
from joiner_local.node_agent import cloud_controller
from joiner_local.node_agent.kubelets import BootTimes, SimulatedKubelets
from tests.unit.local.test_boots import INSTANCE, PATIENCE, LaunchedInstances, RefusedJoining

POD: Object = {"metadata": {"namespace": "default", "name": "web"}, "spec": {"nodeName": INSTANCE.name}}


class OneNode(KubeApi):
    """A cluster with a pod on a node, there or not (`node`); `deleted` are the paths of deleted objects."""

    def __init__(self, node: Object | None = None) -> None:
        self.node = node
        self.listed = 0
        self.deleted: list[str] = []

    def items(self, path: str) -> list[Object]:
        self.listed += 1
        return [POD] if path.endswith(f"spec.nodeName={INSTANCE.name}") else []

    def find(self, path: str) -> Object | None:
        return self.node if path == f"/api/v1/nodes/{INSTANCE.name}" else None

    def call(self, method: str, path: str, body: Any = None, **_: Any) -> Any:
        assert (method, body) == ("DELETE", {"gracePeriodSeconds": 0})
        self.deleted.append(path)


def agent_of(kube: KubeApi, *running: str) -> SimulatedKubelets:
    """Return an agent whose instance ``i-old`` has ended, and those that are named run; all have one name."""
    names = ("i-old", *running)
    joining = RefusedJoining(len(names))
    agent = SimulatedKubelets(LaunchedInstances(launched=dict.fromkeys(names, 0.0)), kube, joining, BootTimes())
    agent.changed(dict.fromkeys(names, "running"))
    assert joining.complete.wait(PATIENCE)
    agent.changed({"i-old": "stopped"})
    return agent


def test_pods_of_a_node_that_is_gone_are_deleted() -> None:
    kube = OneNode()

    cloud_controller.remove_pods(kube, INSTANCE.name)

    assert kube.deleted == ["/api/v1/namespaces/default/pods/web"]


def test_pods_of_a_node_that_has_the_name_by_now_are_kept() -> None:
    kube = OneNode({"metadata": {"name": INSTANCE.name}})

    cloud_controller.remove_pods(kube, INSTANCE.name)

    assert (kube.listed, kube.deleted) == (1, [])


def test_an_ended_instance_of_the_name_does_not_speak_for_the_one_that_runs() -> None:
    alone, beside = OneNode(), OneNode()
    ended, running = agent_of(alone), agent_of(beside, "i-new")

    ended.node_deleted(INSTANCE.name)
    running.node_deleted(INSTANCE.name)
    for agent in (ended, running):
        agent._work.shutdown(wait=True)

    assert alone.deleted == ["/api/v1/namespaces/default/pods/web"]
    assert beside.deleted == []
