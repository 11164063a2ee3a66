"""An instance type of which the reserves of its kubelet leave nothing to pods is in no plan: its kubelet would not
start, or no pod would fit. The reason names the field of the class."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.command_runs import joiner, node_class, pod, pool, write


def of_types(*names: str) -> dict[str, Any]:
    return {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(names)}


def asking_for_cpu_only() -> dict[str, Any]:
    found = pod("a")
    found["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "100m"}
    return found


MEMORY = {"kubeReserved": {"memory": "600Mi"}}
CASES: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "memory": (MEMORY, "spec.kubelet.kubeReserved {memory: 600Mi} of EC2NodeClass/default", "memory"),
    "cpu": (
        {"systemReserved": {"cpu": "2"}},
        "spec.kubelet.systemReserved {cpu: 2} of EC2NodeClass/default",
        "cpu",
    ),
    "storage": (
        {"kubeReserved": {"ephemeral-storage": "18Gi"}},
        "spec.kubelet.kubeReserved {ephemeral-storage: 18Gi} of EC2NodeClass/default",
        "ephemeral-storage",
    ),
    "two": (
        {"kubeReserved": {"memory": "400Mi"}, "evictionHard": {"memory.available": "400Mi"}},
        "spec.kubelet.evictionHard {memory.available: 400Mi} of EC2NodeClass/default",
        "memory",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_type_with_nothing_left_is_no_offer_and_the_field_is_the_reason(name: str, tmp_path: Path) -> None:
    kubelet, named, short_of = CASES[name]
    own, nano = node_class(kubelet=kubelet), pool(requirements=[of_types("t3.nano")])
    file = write(tmp_path, own, nano, asking_for_cpu_only())

    planned = joiner("plan", "-f", file, "-o", "json").json
    explained = joiner("explain", "pod", "a", "-f", file).out

    assert planned["nodes"] == []
    (reason,) = planned["pending"][0]["reasons"]
    assert reason["reason"].startswith("no instance type has enough resources, because of ")
    assert named in reason["reason"]
    assert f"too small: short of {short_of}, because of " in explained
    assert "EC2NodeClass/default would have to change spec.kubelet." in explained


def test_a_type_with_room_is_launched_instead(tmp_path: Path) -> None:
    both = pool(requirements=[of_types("t3.nano", "t3.small")])
    file = write(tmp_path, node_class(kubelet=MEMORY), both, asking_for_cpu_only())

    (node,) = joiner("plan", "-f", file, "-o", "json").json["nodes"]

    assert node["instanceType"] == "t3.small"


def test_reserves_of_windows_leave_nothing_of_a_small_type(tmp_path: Path) -> None:
    """1465 MiB are reserved for 110 pods; no field of the class is the reason."""
    windows = node_class(amiSelectorTerms=[{"alias": "windows2022@latest"}])
    nano = pool(
        requirements=[of_types("t3.nano"), {"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}]
    )
    file = write(tmp_path, windows, nano, asking_for_cpu_only())

    planned = joiner("plan", "-f", file, "-o", "json").json

    assert planned["nodes"] == []
    assert planned["pending"][0]["reasons"][0]["reason"] == (
        "no instance type has enough resources: the reserves leave no memory of t3.nano to pods"
    )


def test_a_static_pool_without_a_type_that_has_room_launches_nothing_and_says_why(tmp_path: Path) -> None:
    static = pool(requirements=[of_types("t3.nano")], replicas=1)
    del static["spec"]["disruption"]
    file = write(tmp_path, node_class(kubelet=MEMORY), static)

    result = joiner("plan", "-f", file)

    assert "spec.kubelet.kubeReserved: the reserves leave no memory of t3.nano to pods" in result.out + result.err
    assert joiner("plan", "-f", file, "-o", "json").json["nodes"] == []


def test_a_provisioner_whose_own_kubelet_leaves_nothing_is_named_itself(tmp_path: Path) -> None:
    provisioner = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "old"},
        "spec": {
            "kubeletConfiguration": MEMORY,
            "requirements": [of_types("t3.nano")],
            "provider": {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}},
        },
    }
    result = joiner("plan", "-f", write(tmp_path, provisioner, asking_for_cpu_only()), "-o", "json")

    assert result.json["nodes"] == []
    assert result.json["pending"][0]["reasons"][0]["reason"] == (
        "no instance type has enough resources, because of spec.kubeletConfiguration.kubeReserved {memory: 600Mi} of "
        "Provisioner/old"
    )
