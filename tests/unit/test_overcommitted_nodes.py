"""The invariant about the room of nodes reports each resource of which the pods of a node ask for too much."""

from typing import Any, Final

import pytest

from joiner_local.control_plane.kube_api import Object
from tests.e2e.overcommitted_nodes import overcommitted

ROOM: Final = {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi", "nvidia.com/gpu": "1", "pods": "3"}


def node(**room: str) -> Object:
    return {"metadata": {"name": "a"}, "status": {"allocatable": {**ROOM, **room}}}


def asking(**requests: str) -> dict[str, Any]:
    return {"resources": {"requests": {key.replace("_", "-"): value for key, value in requests.items()}}}


def pod(*containers: dict[str, Any], phase: str = "Running", on: str = "a", **spec: Any) -> Object:
    return {"spec": {"nodeName": on, "containers": list(containers), **spec}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("resource", "fits", "exceeds", "shown"),
    [
        ("cpu", "1", "1001m", "has 2 of cpu, and its pods ask for 2.001"),
        ("memory", "2Gi", "2049Mi", f"has {4 * 2**30} of memory, and its pods ask for {4 * 2**30 + 2**20}"),
        (
            "ephemeral-storage",
            "5Gi",
            "6Gi",
            f"has {10 * 2**30} of ephemeral-storage, and its pods ask for {11 * 2**30}",
        ),
    ],
)
def test_two_pods_ask_for_more_than_their_node_has(resource: str, fits: str, exceeds: str, shown: str) -> None:
    half = {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "5Gi"}[resource]
    first = pod({"resources": {"requests": {resource: half}}})
    assert overcommitted([node()], [first, pod({"resources": {"requests": {resource: fits}}})]) == []
    assert overcommitted([node()], [first, pod({"resources": {"requests": {resource: exceeds}}})]) == [
        f"node a {shown}"
    ]


def test_extended_resources_are_counted_for_each_node() -> None:
    gpu = pod({"resources": {"limits": {"nvidia.com/gpu": "1"}}})
    assert overcommitted([node()], [gpu]) == []
    assert overcommitted([node()], [gpu, gpu]) == ["node a has 1 of nvidia.com/gpu, and its pods ask for 2"]
    neuron = pod({"resources": {"limits": {"aws.amazon.com/neuron": "1"}}})
    assert overcommitted([node()], [neuron]) == ["node a has 0 of aws.amazon.com/neuron, and its pods ask for 1"]


def test_a_node_holds_no_more_pods_than_it_may() -> None:
    assert overcommitted([node()], [pod({})] * 3) == []
    assert overcommitted([node()], [pod({})] * 4) == ["node a has 3 of pods, and its pods ask for 4"]


def test_pods_that_have_ended_or_are_elsewhere_need_no_room() -> None:
    large = asking(cpu="2")
    others = [pod(large, phase="Succeeded"), pod(large, phase="Failed"), pod(large, on="b"), pod(large, on="")]
    assert overcommitted([node()], [pod(large), *others]) == []


def test_init_containers_need_their_room_before_the_others_and_sidecars_beside_them() -> None:
    init, sidecar = asking(cpu="2"), {**asking(cpu="500m"), "restartPolicy": "Always"}
    fits = pod(asking(cpu="1"), initContainers=[init])
    assert overcommitted([node()], [fits]) == []
    assert overcommitted([node()], [pod(asking(cpu="1"), initContainers=[init, sidecar])]) == []
    wrong = ["node a has 2 of cpu, and its pods ask for 2.5"]
    assert overcommitted([node()], [pod(asking(cpu="1"), initContainers=[sidecar, init])]) == wrong
    assert overcommitted([node()], [pod(asking(cpu="2"), initContainers=[sidecar])]) == wrong


def test_overhead_is_added_and_requests_of_the_whole_pod_replace_those_of_its_containers() -> None:
    assert overcommitted([node()], [pod(asking(cpu="2"), overhead={"cpu": "250m"})]) == [
        "node a has 2 of cpu, and its pods ask for 2.25"
    ]
    whole = {"requests": {"cpu": "3"}}
    assert overcommitted([node()], [pod(asking(cpu="1"), resources=whole)]) == [
        "node a has 2 of cpu, and its pods ask for 3"
    ]
