"""Fields and names that change nothing, or with which no node joins, are reported with their object and a remedy."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.command_runs import joiner, node_class, pod, pool, write
from tests.unit.cli.remedy_runs import only


def messages(folder: Path, catalogue: Path, *manifests: Mapping[str, Any]) -> dict[str, str]:
    """Return the message of each problem by its field."""
    found = joiner("plan", "-f", write(folder, *manifests), "--catalogue", catalogue, "-o", "json").json
    return {one["field"]: one["message"] for one in found["problems"]}


def reason(folder: Path, catalogue: Path, *manifests: Mapping[str, Any]) -> str:
    found = joiner("plan", "-f", write(folder, *manifests), "--catalogue", catalogue, "-o", "json").json
    text: str = found["pending"][0]["reasons"][0]["reason"]
    return text


def test_pods_per_core_of_0_is_reported_and_is_no_reason(tmp_path: Path, catalogue: Path) -> None:
    kubelet = {
        "podsPerCore": 0,
        "evictionHard": {"memory.available": "99%"},
        "kubeReserved": {"ephemeral-storage": "19Gi"},
    }
    manifests = [pool(), node_class(kubelet=kubelet), pod("a")]

    assert messages(tmp_path, catalogue, *manifests)["spec.kubelet.podsPerCore"].endswith(
        "it has no effect: 0 means no limit; remove it"
    )
    text = reason(tmp_path, catalogue, *manifests)
    assert "podsPerCore" not in text
    assert "evictionHard" in text


def test_nodes_without_pods_are_reported(tmp_path: Path, catalogue: Path) -> None:
    found = messages(tmp_path, catalogue, pool(), node_class(kubelet={"maxPods": 0}), pod("a"))

    assert "no pod fits on a node" in found["spec.kubelet.maxPods"]


@pytest.mark.parametrize("alias", ["al2023@latest", "bottlerocket@latest", "windows2022@latest"])
def test_nodes_without_instance_metadata_are_reported(alias: str, tmp_path: Path, catalogue: Path) -> None:
    disabled = node_class(amiSelectorTerms=[{"alias": alias}], metadataOptions={"httpEndpoint": "disabled"})
    found = joiner("plan", "-f", write(tmp_path, pool(), disabled), "--catalogue", catalogue)

    assert "spec.metadataOptions.httpEndpoint: nodes read the instance metadata to join" in found.err


def test_a_device_that_other_catalogues_have_is_not_taken_for_another_one(tmp_path: Path, catalogue: Path) -> None:
    found = messages(tmp_path, catalogue, pool(limits={"amd.com/gpu": "1"}), pod("a"))

    assert found["spec.limits.amd.com/gpu"].endswith("because no instance type of the catalogue has this resource")


def test_a_folder_of_settings_is_called_a_folder(tmp_path: Path, catalogue: Path) -> None:
    found = joiner("plan", "-f", write(tmp_path, pod("a")), "--catalogue", catalogue, "--settings", tmp_path)

    assert found.exit_code == 1
    assert "it is a folder" in found.err


def test_an_empty_item_of_a_list_is_reported(tmp_path: Path, catalogue: Path) -> None:
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [None, pod("a")]})
    found = joiner("plan", "-f", write(tmp_path, pool(), listed), "--catalogue", catalogue)

    assert found.exit_code == 1
    assert "item 1: it is empty: write an object, or remove it" in found.err
    assert "a" in found.out


def test_an_unknown_annotation_names_the_list_of_all(tmp_path: Path, catalogue: Path) -> None:
    annotated = pool()
    annotated["metadata"]["annotations"] = {"joiner.dev/bogus": "x"}

    assert messages(tmp_path, catalogue, annotated)["metadata.annotations[joiner.dev/bogus]"].endswith(
        "no such annotation is known; docs/pool-annotations.md lists them"
    )


def test_one_value_is_singular(tmp_path: Path, catalogue: Path) -> None:
    one = {**only("node.kubernetes.io/instance-type", "m5.large"), "minValues": 2}
    found = messages(tmp_path, catalogue, pool(requirements=[one]))

    assert any(text.endswith("there is only 1 value to choose from") for text in found.values())


def test_a_fractional_limit_of_nodes_is_reported_beside_the_reason_that_names_the_whole_one(
    tmp_path: Path, catalogue: Path
) -> None:
    manifests = [pool(limits={"nodes": "1.5"}, requirements=[only("node.kubernetes.io/instance-type", "m5.large")])]
    pods = [pod("a", cpu="1500m"), pod("b", cpu="1500m")]
    answer = joiner("plan", "-f", write(tmp_path, *manifests, node_class(), *pods), "--catalogue", catalogue)

    assert (
        "NodePool/default: spec.limits.nodes is 1.5: it counts as 1, because it is rounded down to a whole amount; "
        "write 1 or 2"
    ) in answer.err
    assert "limit nodes 1 of NodePool/default" in reason(tmp_path, catalogue, *manifests, node_class(), *pods)
