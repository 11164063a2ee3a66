"""Karpenter's published examples for v1, in our own words: each gives nodes, or is refused with the true reason."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.launching.node_class_answers import NodeClassAnswers
from joiner.launching.node_class_policy import NodeClassPolicy
from joiner.launching.node_class_resolution import resolve_node_class
from joiner.pools import NodeClass, read_manifests
from tests.published_examples import BY_ID, CLUSTER, EXAMPLES, node_class
from tests.unit.cli.command_runs import joiner, pool, write
from tests.unit.cli.small_catalogue import small

MORE_TYPES = ("m5.2xlarge", "m5d.xlarge", "inf2.xlarge", "c5n.9xlarge", "m8i.xlarge")


@pytest.fixture(scope="module")
def types(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("types") / "catalogue.json"
    with_spot = (
        one.with_offerings(
            (*one.offerings, *(replace(each, capacity_type="spot", price_per_hour=0.01) for each in one.offerings))
        )
        for one in small(*MORE_TYPES).types.values()
    )
    path.write_text(json.dumps(Catalogue.of(with_spot).to_json()), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_published_example_gives_nodes(name: str, tmp_path: Path, types: Path) -> None:
    chosen = EXAMPLES[name]
    files = write(tmp_path, chosen.pool, chosen.node_class, chosen.workload)

    answer = joiner("plan", "-f", files, "--catalogue", types, "-o", "json")

    assert (answer.exit_code, answer.json["pending"]) == (0, []), answer.err
    assert len(answer.json["nodes"]) >= 1


SUBNET = {"SubnetId": "subnet-1", "AvailabilityZone": "us-east-1a", "AvailableIpAddressCount": 10}


def errors_of(manifest: Mapping[str, Any]) -> list[str]:
    """Return the messages of a class in a cluster of Kubernetes 1.36 whose account has no image that it names."""
    (read,) = read_manifests([manifest]).classes
    assert isinstance(read, NodeClass)
    answers = NodeClassAnswers(subnets=[SUBNET], security_groups=[{"GroupId": "sg-1"}])
    ceilings = NodeClassPolicy((f"KarpenterNodeRole-{CLUSTER}",), "profile", ())
    found = resolve_node_class(read, answers, ceilings, cluster="demo", kubernetes_version="1.36")
    return [one.message for one in found.problems if one.severity == "error" and one.condition == "AMIsReady"]


def test_a_placeholder_for_an_image_id_is_refused_with_the_true_reason() -> None:
    assert errors_of(node_class("", **BY_ID)) == [
        "spec.amiSelectorTerms: no image has image-id ami-0123456789abcdef0: select one that exists in this region, or "
        "have its owner allowed"
    ]


def test_a_release_older_than_the_cluster_is_refused_with_the_true_reason() -> None:
    assert errors_of(node_class("al2023@v20240807")) == [
        "spec.amiSelectorTerms: alias al2023@v20240807: AWS has no AL2023 image of this release for Kubernetes 1.36: "
        "use al2023@latest, or a release that exists for it"
    ]
    assert errors_of(node_class("al2@latest")) == [
        "AWS has no AL2 images from Kubernetes 1.33 on, and the cluster has 1.36: use the family AL2023"
    ]


def test_a_class_of_another_kind_is_refused_with_the_true_reason(tmp_path: Path, types: Path) -> None:
    wrong = pool()
    wrong["spec"]["template"]["spec"]["nodeClassRef"]["kind"] = "NodeClass"

    answer = joiner("plan", "-f", write(tmp_path, wrong, node_class()), "--catalogue", types, "-o", "json")

    assert answer.exit_code != 0
    assert "use EC2NodeClass" in answer.err
