"""`joiner plan` and `joiner explain` name the settings of a class that leave no room for a pod, and propose to change
those that a plan confirms."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.command_runs import joiner, node_class, pod, pool, write

EFA = "vpc.amazonaws.com/efa"
TYPES = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
INTERFACE = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}

CASES: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "no pods": ({"kubelet": {"maxPods": 0}}, "spec.kubelet.maxPods 0", "spec.kubelet.maxPods (0)"),
    "kube": (
        {"kubelet": {"kubeReserved": {"cpu": "1900m"}, "maxPods": 10}},
        "spec.kubelet.kubeReserved {cpu: 1900m}",
        "spec.kubelet.kubeReserved ({cpu: 1900m})",
    ),
    "system": (
        {"kubelet": {"systemReserved": {"memory": "8Gi"}}},
        "spec.kubelet.systemReserved {memory: 8Gi}",
        "spec.kubelet.systemReserved ({memory: 8Gi})",
    ),
    "eviction": (
        {"kubelet": {"evictionHard": {"memory.available": "99%"}}},
        "spec.kubelet.evictionHard {memory.available: 99%}",
        "spec.kubelet.evictionHard ({memory.available: 99%})",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_setting_of_the_class_that_leaves_no_room_is_the_reason_and_its_change_the_remedy(
    name: str, tmp_path: Path, catalogue: Path
) -> None:
    spec, named, changed = CASES[name]
    file = write(tmp_path, node_class(**spec), pool(requirements=[TYPES]), pod("a", cpu="500m", memory="512Mi"))

    planned = joiner("plan", "-f", file, "--catalogue", catalogue, "-o", "json")
    explained = joiner("explain", "pod", "a", "-f", file, "--catalogue", catalogue)

    (reason,) = planned.json["pending"][0]["reasons"]
    assert reason["reason"] == f"no instance type has enough resources, because of {named} of EC2NodeClass/default"
    assert f"because of {named} of EC2NodeClass/default" in explained.out
    assert f"EC2NodeClass/default would have to change {changed}." in explained.out


def test_interfaces_that_the_settings_reserve_are_the_reason_if_they_leave_none_for_pods(
    tmp_path: Path, catalogue: Path
) -> None:
    (tmp_path / "prod.yaml").write_text(
        json.dumps({"cluster": "prod", "region": "us-east-1", "nodes": {"reservedInterfaces": 3}})
    )
    role = node_class(role="joiner-node-prod-us-east-1")
    file = write(tmp_path, role, pool(requirements=[TYPES]), pod("a", cpu="500m"))
    arguments = ("-f", file, "--catalogue", catalogue, "--settings", tmp_path / "prod.yaml")

    planned, explained = joiner("plan", *arguments, "-o", "json"), joiner("explain", "pod", "a", *arguments)

    because = "because of nodes.reservedInterfaces at least 3 of the settings"
    (reason,) = planned.json["pending"][0]["reasons"]
    assert reason["reason"] == f"no instance type has enough resources, {because}"
    assert f"too small: short of pods, {because}" in explained.out
    assert "it is short of 1 pod." in explained.out


def test_two_settings_that_leave_no_room_together_are_both_named(tmp_path: Path, catalogue: Path) -> None:
    both = {"kubeReserved": {"cpu": "1900m"}, "systemReserved": {"cpu": "1900m"}}
    file = write(tmp_path, node_class(kubelet=both), pool(requirements=[TYPES]), pod("a", cpu="500m"))

    explained = joiner("explain", "pod", "a", "-f", file, "--catalogue", catalogue)

    assert (
        "EC2NodeClass/default would have to change spec.kubelet.kubeReserved ({cpu: 1900m}) and change "
        "spec.kubelet.systemReserved ({cpu: 1900m})."
    ) in explained.out


def test_declared_interfaces_without_efa_are_the_reason_of_a_pod_that_requests_it(tmp_path: Path) -> None:
    asking = pod("a")
    asking["spec"]["containers"][0]["resources"]["limits"] = {EFA: "4"}
    p4d = {**TYPES, "values": ["p4d.24xlarge"]}
    file = write(tmp_path, node_class(networkInterfaces=[INTERFACE]), pool(requirements=[p4d]), asking)

    explained = joiner("explain", "pod", "a", "-f", file)

    assert f"short of {EFA}, because of spec.networkInterfaces of EC2NodeClass/default" in explained.out
    assert "EC2NodeClass/default would have to change spec.networkInterfaces." in explained.out


def test_a_pod_that_is_too_large_for_every_type_has_no_setting_as_its_reason(tmp_path: Path, catalogue: Path) -> None:
    file = write(tmp_path, node_class(kubelet={"maxPods": 20}), pool(requirements=[TYPES]), pod("a", cpu="64"))

    planned = joiner("plan", "-f", file, "--catalogue", catalogue, "-o", "json")
    explained = joiner("explain", "pod", "a", "-f", file, "--catalogue", catalogue)

    assert planned.json["pending"][0]["reasons"][0]["reason"] == "no instance type has enough resources"
    assert "maxPods" not in explained.out


DEVICES: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "small": (
        {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "25Gi"}}]},
        "spec.blockDeviceMappings[0].ebs.volumeSize 25Gi of EC2NodeClass/default (35Gi are needed)",
        "change spec.blockDeviceMappings[0].ebs.volumeSize (25Gi) to 35Gi",
    ),
    "default": (
        {},
        "the default volumeSize 20Gi of EC2NodeClass/default (35Gi are needed on /dev/xvda)",
        "map a volumeSize of 35Gi in blockDeviceMappings (the default volumeSize is 20Gi)",
    ),
    "no pods": (
        {"kubelet": {"maxPods": 0, "kubeReserved": {"cpu": "100m"}}},
        "spec.kubelet.maxPods 0 of EC2NodeClass/default and the default volumeSize 20Gi of EC2NodeClass/default "
        "(35Gi are needed on /dev/xvda)",
        "change spec.kubelet.maxPods (0) and map a volumeSize of 35Gi in blockDeviceMappings (the default volumeSize "
        "is 20Gi)",
    ),
    "second": (
        {
            "amiSelectorTerms": [{"alias": "bottlerocket@latest"}],
            "blockDeviceMappings": [
                {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "80Gi"}},
                {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "21Gi"}},
            ],
        },
        "spec.blockDeviceMappings[1].ebs.volumeSize 21Gi of EC2NodeClass/default (35Gi are needed)",
        "change spec.blockDeviceMappings[1].ebs.volumeSize (21Gi) to 35Gi",
    ),
}


def needing_storage(amount: str) -> dict[str, Any]:
    found = pod("a", cpu="500m")
    found["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = amount
    return found


@pytest.mark.parametrize("name", DEVICES)
def test_a_volume_that_is_too_small_is_the_reason_with_the_size_that_is_needed(
    name: str, tmp_path: Path, catalogue: Path
) -> None:
    """Of 35 GiB, 10 % are left free for the eviction threshold, and 1 GiB for the kubelet."""
    spec, named, changed = DEVICES[name]
    file = write(tmp_path, node_class(**spec), pool(requirements=[TYPES]), needing_storage("30Gi"))

    planned = joiner("plan", "-f", file, "--catalogue", catalogue, "-o", "json")
    explained = joiner("explain", "pod", "a", "-f", file, "--catalogue", catalogue)

    (reason,) = planned.json["pending"][0]["reasons"]
    assert reason["reason"] == f"no instance type has enough resources, because of {named}"
    assert f"EC2NodeClass/default would have to {changed}." in explained.out


def test_the_size_that_is_named_holds_the_pod_and_no_smaller_one_does(tmp_path: Path, catalogue: Path) -> None:
    for size, placed in (("34Gi", False), ("35Gi", True)):
        mapped = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": size}}]
        own = node_class(blockDeviceMappings=mapped)
        file = write(tmp_path, own, pool(requirements=[TYPES]), needing_storage("30Gi"))

        planned = joiner("plan", "-f", file, "--catalogue", catalogue, "-o", "json").json

        assert ([len(planned["nodes"]), len(planned["pending"])]) == [placed, not placed]


def test_no_volume_is_named_that_is_larger_than_those_of_ebs(tmp_path: Path, catalogue: Path) -> None:
    file = write(tmp_path, node_class(), pool(requirements=[TYPES]), needing_storage("80Ti"))

    planned = joiner("plan", "-f", file, "--catalogue", catalogue, "-o", "json")

    assert planned.json["pending"][0]["reasons"][0]["reason"] == "no instance type has enough resources"


def test_a_pod_for_efa_fits_on_the_types_that_have_it(tmp_path: Path) -> None:
    asking = pod("a")
    asking["spec"]["containers"][0]["resources"]["limits"] = {EFA: "4"}
    file = write(tmp_path, node_class(), pool(requirements=[{**TYPES, "values": ["p4d.24xlarge"]}]), asking)

    assert "1 instance type of NodePool/default can hold it" in joiner("explain", "pod", "a", "-f", file).out


def daemon_set(name: str) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod(name)["spec"]}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(("setting", "value"), [("maxPods", 0), ("maxPods", 2), ("podsPerCore", 1)])
def test_a_setting_that_leaves_no_room_beside_daemons_is_named(
    setting: str, value: int, tmp_path: Path, catalogue: Path
) -> None:
    """An m5.large has two vCPUs."""
    own, daemons = node_class(kubelet={setting: value}), map(daemon_set, ("logs", "metrics"))
    file = write(tmp_path, own, pool(requirements=[TYPES]), *daemons, pod("a"))

    planned = joiner("plan", "-f", file, "--catalogue", catalogue, "-o", "json")

    assert planned.json["pending"][0]["reasons"][0]["reason"].endswith(
        f"because of spec.kubelet.{setting} {value} of EC2NodeClass/default"
    )
