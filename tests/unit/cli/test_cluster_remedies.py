"""`joiner explain pod` proposes changes of several objects together, of the settings, and a NodeOverlay; each test
applies what is proposed."""

import json
from pathlib import Path
from typing import Any

from tests.unit.cli.command_runs import node_class, pod, pool
from tests.unit.cli.remedy_runs import is_placed, only, remedy

TYPES = only("node.kubernetes.io/instance-type", "m5.large", "m5.xlarge")
OPEN = "NodePool/default would have to allow other values of node.kubernetes.io/instance-type"


def requesting(name: str, amount: str, **more: Any) -> dict[str, Any]:
    made = pod("a", **more)
    made["spec"]["containers"][0]["resources"]["limits"] = {name: amount}
    return made


def settings(folder: Path, **ceilings: float) -> Path:
    path = folder / "settings.yaml"
    path.write_text(json.dumps({"cluster": "prod", "region": "us-east-1", "ceilings": ceilings}))
    return path


def test_the_pod_requests_less_and_the_pool_allows_types_with_its_device(tmp_path: Path, catalogue: Path) -> None:
    large = requesting("nvidia.com/gpu", "1", memory="5000Gi")

    text = remedy(tmp_path, catalogue, pool(requirements=[TYPES]), large)

    asked = float(text.removeprefix("the pod would have to request ").partition(" GiB memory less")[0])
    assert text.partition(", and ")[2].startswith(f"{OPEN} (then it gets g")
    less = requesting("nvidia.com/gpu", "1", memory=f"{int((5000 - asked) * 1024)}Mi")
    assert is_placed(tmp_path, catalogue, pool(), less)
    assert not is_placed(tmp_path, catalogue, pool(requirements=[TYPES]), less)
    assert not is_placed(tmp_path, catalogue, pool(), large)


def test_a_node_overlay_gives_nodes_a_resource_that_no_type_has(tmp_path: Path, catalogue: Path) -> None:
    custom = requesting("example.com/foo", "2")

    assert remedy(tmp_path, catalogue, pool(), custom) == (
        "a NodeOverlay would have to give nodes example.com/foo: 2 in spec.capacity."
    )
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "foo"},
        "spec": {"requirements": [], "capacity": {"example.com/foo": "2"}},
    }
    assert is_placed(tmp_path, catalogue, pool(), custom, overlay)


def test_no_node_overlay_is_proposed_for_a_misspelt_device(tmp_path: Path, catalogue: Path) -> None:
    assert "NodeOverlay" not in remedy(tmp_path, catalogue, pool(), requesting("nvidia.com/gpus", "1"))


def test_a_ceiling_of_the_settings_is_raised(tmp_path: Path, catalogue: Path) -> None:
    low, enough = {"nodes": 1, "pricePerHour": 0.05}, {"nodes": 1, "pricePerHour": 0.5}
    manifests = pool(requirements=[TYPES]), pod("a")

    assert remedy(tmp_path, catalogue, *manifests, settings=settings(tmp_path, **low)) == (
        "the settings would have to raise ceilings.pricePerHour."
    )
    assert not is_placed(tmp_path, catalogue, *manifests, settings=settings(tmp_path, **low))
    assert is_placed(tmp_path, catalogue, *manifests, settings=settings(tmp_path, **enough))


def test_a_ceiling_beside_a_rule_of_the_pod_is_in_the_remedy(tmp_path: Path, catalogue: Path) -> None:
    raised = "the settings would have to raise ceilings.pricePerHour"
    red, low = pod("a", nodeSelector={"team": "red"}), settings(tmp_path, pricePerHour=0.05)

    assert remedy(tmp_path, catalogue, pool(requirements=[TYPES]), red, settings=low) == (
        f"the pod would have to drop team In [red], and {raised}; or "
        f"NodePool/default would have to allow team In [red], and {raised}."
    )


def test_a_setting_of_the_class_changes_with_the_pool(tmp_path: Path, catalogue: Path) -> None:
    """A DaemonSet takes the only pod of each node, and the pool has no GPU."""
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": pod("")["spec"]}
    agent = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
    }
    gpu, one_pod = requesting("nvidia.com/gpu", "1"), node_class(kubelet={"maxPods": 1})

    text = remedy(tmp_path, catalogue, pool(requirements=[TYPES]), one_pod, agent, gpu)

    assert text.startswith(f"{OPEN} (then it gets g")
    assert text.endswith("), and EC2NodeClass/default would have to change spec.kubelet.maxPods (1).")
    assert is_placed(tmp_path, catalogue, pool(), node_class(), agent, gpu)
    assert not is_placed(tmp_path, catalogue, pool(), one_pod, agent, gpu)
    assert not is_placed(tmp_path, catalogue, pool(requirements=[TYPES]), node_class(), agent, gpu)
