"""A cluster whose own scheduler has default topology spread constraints: plans keep them, and so the scheduler accepts
every planned place.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from infra.planning_settings import DefaultSpreadSettings
from infra.settings import load_settings
from joiner_local.demo.demonstration import DemoStack
from joiner_local.stack.cdk_deployment import Deployment
from joiner_local.stack.stack_control import REPOSITORY, LocalStack
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import INSTANCE_TYPE, NEVER_DISRUPTED, deployment, node_class, node_pool
from tests.e2e.test_uninstall import synthesise

pytestmark = pytest.mark.e2e

ZONE = "topology.kubernetes.io/zone"
SPREAD = DefaultSpreadSettings(1, ZONE, "DoNotSchedule")


def configuration(kubeconfig: Path) -> str:
    """Return a configuration of kube-scheduler with this default constraint."""
    spreading = {
        "defaultingType": "List",
        "defaultConstraints": [
            {name: value for name, value in SPREAD.to_kube().items() if not name.endswith("Policy")}
        ],
    }
    return yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "leaderElection": {"leaderElect": False},
            "profiles": [{"pluginConfig": [{"name": "PodTopologySpread", "args": spreading}]}],
        }
    )


@pytest.fixture(scope="module")
def spreading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Actor]:
    """A stack whose scheduler and whose settings have the same default constraint."""
    root, own = tmp_path_factory.mktemp("spreading"), tmp_path_factory.mktemp("scheduler")
    file = own / "scheduler.yaml"
    file.write_text(configuration(root.resolve() / "scheduler.kubeconfig"))
    settings = load_settings(REPOSITORY / "clusters/local.yaml")
    planning = replace(settings.planning, default_topology_spread_constraints=(SPREAD,))
    synthesise(replace(settings, planning=planning), own / "cdk.out")
    with LocalStack(root, boot_seconds=1.0, say=print, scheduler_arguments=(f"--config={file}",)) as stack:
        stack.deploy(Deployment(REPOSITORY, stack.root, say=print, synthesised=own / "cdk.out"))
        yield Actor(DemoStack.of(stack), stack.outputs())


def pods_by_zone(actor: Actor) -> Counter[str]:
    zones = {node["metadata"]["name"]: node["metadata"]["labels"][ZONE] for node in actor.nodes()}
    return Counter(zones[pod["spec"]["nodeName"]] for pod in actor.pods("web"))


@pytest.mark.long("default constraints in unit tests")
def test_pods_get_the_nodes_that_the_default_constraints_of_the_scheduler_require(spreading: Actor) -> None:
    """A node holds two pods. The eighth pod fits on the node of the seventh, where the scheduler refuses it: four pods
    in that zone would be two more than in the others."""
    pool = node_pool("general", {INSTANCE_TYPE: ["m5.2xlarge"]}, class_name="default", disruption=NEVER_DISRUPTED)

    spreading.create(node_class("default"), pool, deployment("web", replicas=6, cpu="3"))
    spreading.wait_running(6, "web")
    assert sorted(pods_by_zone(spreading).values()) == [2, 2, 2]
    assert len(spreading.instances()) == 3
    for replicas, nodes, zones in ((7, 4, [2, 2, 3]), (8, 5, [2, 3, 3])):
        spreading.rest()
        spreading.scale("web", replicas)
        spreading.wait_running(replicas, "web")
        assert sorted(pods_by_zone(spreading).values()) == zones
        assert len(spreading.instances()) == nodes
