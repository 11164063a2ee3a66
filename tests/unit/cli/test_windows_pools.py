"""What `joiner plan` knows of Windows nodes: instance types that EKS supports for them, the address that each of their
pods requests, and that pods of Linux may get a pool without a taint."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.command_runs import CommandResult, deployment, joiner, node_class, pod, pool, write

OS = "kubernetes.io/os"
BUILD = "node.kubernetes.io/windows-build"
TYPE = "node.kubernetes.io/instance-type"
WINDOWS = node_class(amiSelectorTerms=[{"alias": "windows2022@latest"}])
TAINT = {"key": "os", "value": "windows", "effect": "NoSchedule"}
SELECTED: Mapping[str, Any] = {"nodeSelector": {OS: "windows"}}
REQUIRED: Mapping[str, Any] = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": OS, "operator": "In", "values": ["windows"]}]}]
            }
        }
    }
}


def plan(folder: Path, *manifests: Mapping[str, Any]) -> CommandResult:
    return joiner("plan", "-f", write(folder, WINDOWS, *manifests), "-o", "json")


def of_types(*types: str) -> dict[str, Any]:
    return pool(requirements=[{"key": TYPE, "operator": "In", "values": list(types)}])


def of_m5() -> list[dict[str, Any]]:
    return [{"key": TYPE, "operator": "In", "values": ["m5.large"]}]


def test_windows_nodes_have_no_type_that_eks_does_not_support_for_them(tmp_path: Path) -> None:
    found = plan(tmp_path, of_types("m4.large", "m4.16xlarge", "m6a.large"), pod("a", **SELECTED))

    assert [node["instanceType"] for node in found.json["nodes"]] == ["m4.16xlarge"]


def test_the_note_about_the_licence_is_gone_once_an_overlay_prices_windows_nodes(tmp_path: Path) -> None:
    def notes(overlay: dict[str, Any]) -> bool:
        spec = {"weight": 1, **overlay}
        made = {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": "licence"},
            "spec": spec,
        }
        return "without the licence of Windows" in plan(tmp_path, of_types("m5.large"), made, pod("a", **SELECTED)).out

    of_windows = {"key": OS, "operator": "In", "values": ["windows"]}
    of_pool = {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]}
    other_type = {"key": TYPE, "operator": "In", "values": ["c5.large"]}

    assert not notes({"requirements": [of_windows], "priceAdjustment": "+0.092"})
    assert not notes({"requirements": [of_pool], "priceAdjustment": "+0.092"})
    assert notes({"requirements": [of_windows], "capacity": {"example.com/licence": "1"}})
    assert notes({"requirements": [of_windows, other_type], "priceAdjustment": "+0.092"})
    assert notes({"requirements": [{**of_windows, "values": ["linux"]}], "priceAdjustment": "+0.092"})
    assert notes({"requirements": [{**other_type, "values": ["m5.large"]}], "priceAdjustment": "-5%"})


def test_a_pool_of_unsupported_types_is_told_so(tmp_path: Path) -> None:
    found = plan(tmp_path, of_types("m6a.large"), pod("a", **SELECTED))

    assert found.exit_code == 2
    assert "spec.amiSelectorTerms: Amazon EKS does not support Windows on m6a.large" in found.out


def test_the_field_that_makes_images_those_of_windows_is_named(tmp_path: Path) -> None:
    by_id = {"amiFamily": "Windows2022", "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}]}
    windows = {**WINDOWS, "spec": {**WINDOWS["spec"], **by_id}}

    found = joiner("plan", "-f", write(tmp_path, windows, of_types("m6a.large"), pod("a", **SELECTED)))

    assert "spec.amiFamily: Amazon EKS does not support Windows on m6a.large" in found.out


@pytest.mark.parametrize("choice", [SELECTED, REQUIRED], ids=["node selector", "affinity"])
def test_each_pod_for_windows_takes_one_of_the_addresses_of_its_node(choice: dict[str, Any], tmp_path: Path) -> None:
    found = plan(tmp_path, of_types("m5.large"), deployment("win", 12, **choice))

    nodes = found.json["nodes"]
    assert len(nodes) == 2  # m5.large has ten addresses, one of which is its own
    assert [node["requests"]["vpc.amazonaws.com/PrivateIPv4Address"] for node in nodes] == [
        str(len(node["pods"])) for node in nodes
    ]


@pytest.mark.parametrize("pods", [{}, {"hostNetwork": True, **SELECTED}], ids=["for linux", "with the node's address"])
def test_other_pods_request_no_address(pods: dict[str, Any], tmp_path: Path) -> None:
    found = plan(tmp_path, of_types("m5.large"), deployment("other", 12, **pods))

    assert [len(node["pods"]) for node in found.json["nodes"]] == [12]


@pytest.mark.parametrize(("taints", "notes"), [([], 1), ([TAINT], 0)], ids=["open", "tainted"])
def test_a_windows_pool_that_pods_of_linux_may_get_has_a_note(
    taints: list[dict[str, str]], notes: int, tmp_path: Path
) -> None:
    found = plan(tmp_path, pool(node={"taints": taints}))

    about = [one for one in found.json["problems"] if one["field"] == "spec.template.spec.taints"]
    assert len(about) == notes
    assert all(one["message"].startswith("its nodes run Windows, and pods that require no") for one in about)


@pytest.mark.parametrize(("windows", "warned"), [(["nodes"], False), (["other"], True)], ids=["admitted", "linux only"])
def test_the_role_of_windows_nodes_must_be_admitted_for_windows(
    windows: list[str], warned: bool, tmp_path: Path
) -> None:
    settings = tmp_path / "prod.yaml"
    roles = {"names": ["nodes", "other"], "windowsNames": windows}
    settings.write_text(json.dumps({"cluster": "prod", "region": "us-east-1", "nodeRoles": roles}), encoding="utf-8")

    found = joiner("plan", "-f", write(tmp_path, WINDOWS, pool()), "--settings", settings)

    message = "the access entry of nodes is of the type for Linux, with which pods of Windows nodes get no network"
    assert (message in found.err) == warned


@pytest.mark.parametrize(
    ("alias", "key", "value", "has"),
    [
        ("al2023@latest", OS, "windows", f"{OS} linux"),
        ("windows2022@latest", OS, "linux", f"{OS} windows"),
        ("al2023@latest", BUILD, "10.0.20348", f"no label {BUILD}"),
        ("windows2022@latest", BUILD, "10.0.17763", f"{BUILD} 10.0.20348"),
    ],
)
def test_a_pool_that_requires_what_the_images_of_its_class_do_not_have_is_told_so(
    alias: str, key: str, value: str, has: str, tmp_path: Path
) -> None:
    own = node_class(amiSelectorTerms=[{"alias": alias}])
    requires = [{"key": key, "operator": "In", "values": [value]}, *of_m5()]
    file = write(tmp_path, own, pool(requirements=requires), pod("a", nodeSelector={key: value}))

    found = joiner("plan", "-f", file, "-o", "json")

    cause = f"spec.amiSelectorTerms: its nodes have {has}, and the pool requires {key} In [{value}]: change this field "
    ((reason,),) = [[each["reason"] for each in one["reasons"]] for one in found.json["pending"]]
    assert reason == (
        f"its class EC2NodeClass/default excludes every instance type that the pool allows; {cause}of the class, or "
        "the requirement of the pool"
    )
    (problem,) = [one for one in found.json["problems"] if one["field"] == "spec.template.spec.nodeClassRef"]
    assert (problem["object"], problem["severity"]) == ("NodePool/default", "warning")
    assert cause in problem["message"]


def exit_code(folder: Path, catalogue: Path, *manifests: Mapping[str, Any]) -> int:
    return joiner("plan", "-f", write(folder, *manifests), "--catalogue", catalogue).exit_code


def test_a_pod_that_declares_windows_gets_no_node_of_linux(tmp_path: Path, catalogue: Path) -> None:
    """The kubelet of Linux refuses it; the scheduler does not heed `spec.os`."""
    declared = pod("a", os={"name": "windows"})
    files = write(tmp_path, pool(), node_class(), declared)
    told = joiner("explain", "pod", "a", "-f", files, "--catalogue", catalogue)

    assert told.exit_code == 2
    assert (
        f"default: incompatible requirements: the pod wants {OS} In [windows], and no node of this pool has that "
        "(spec.os.name of the pod).\n" in told.out
    )
    assert told.out.endswith(
        f"What would have to change: the pod would have to drop {OS} In [windows] (its spec.os.name).\n"
    )
    assert exit_code(tmp_path, catalogue, pool(), WINDOWS, declared) == 0


def test_a_pod_that_declares_linux_gets_no_node_of_windows(tmp_path: Path, catalogue: Path) -> None:
    declared = pod("a", os={"name": "linux"})

    assert exit_code(tmp_path, catalogue, pool(), WINDOWS, declared) == 2
    assert exit_code(tmp_path, catalogue, pool(), node_class(), declared) == 0


@pytest.mark.parametrize(("system", "code"), [("windows", 2), ("linux", 0)])
def test_an_existing_node_without_a_label_of_its_system_runs_linux(
    system: str, code: int, tmp_path: Path, catalogue: Path
) -> None:
    status = {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "here"}, "status": status}

    assert exit_code(tmp_path, catalogue, node, pod("a", os={"name": system})) == code
