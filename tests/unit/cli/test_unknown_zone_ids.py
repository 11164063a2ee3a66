"""Zone IDs in plans: those of a class's subnets are known from its status only. A plan says so, where it lacks them."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.command_runs import CommandResult, joiner, node_class, pod, pool, write

ZONE_ID = "topology.k8s.aws/zone-id"
UNKNOWN = "the IDs of zones are not known here: a cluster has them in the status of the class (subnets)"


def requires(*values: str) -> dict[str, Any]:
    return pool(requirements=[{"key": ZONE_ID, "operator": "In", "values": list(values)}])


def resolved() -> dict[str, Any]:
    """Return a class with subnets in two zones."""
    zones = {"us-east-1a": "use1-az1", "us-east-1b": "use1-az2"}
    subnets = [{"id": f"subnet-{one}", "zone": zone, "zoneID": one} for zone, one in zones.items()]
    return node_class({"subnets": subnets})


def explain(folder: Path, catalogue: Path, *manifests: dict[str, Any]) -> CommandResult:
    return joiner("explain", "pod", "a", "-f", write(folder, *manifests), "--catalogue", catalogue)


def test_a_pool_that_requires_an_unknown_zone_id_has_no_nodes_and_no_remedy(tmp_path: Path, catalogue: Path) -> None:
    found = explain(tmp_path, catalogue, requires("use1-az1"), node_class(), pod("a"))

    assert found.out.splitlines()[2:] == [f"default: it requires {ZONE_ID} In [use1-az1], and {UNKNOWN}."]
    assert (
        f"NodePool/default: spec.template.spec.requirements[{ZONE_ID}] is use1-az1: {UNKNOWN}; the plan has no nodes "
        "of this pool, and these values are not checked" in found.err
    )


@pytest.mark.parametrize(("node_classes", "why"), [(node_class(), UNKNOWN), (resolved(), "no subnet of")])
def test_a_zone_id_of_a_template_label_is_reported_on_the_label(
    tmp_path: Path, catalogue: Path, node_classes: dict[str, Any], why: str
) -> None:
    labelled = pool()
    labelled["spec"]["template"]["metadata"] = {"labels": {ZONE_ID: "use1-az9"}}
    found = explain(tmp_path, catalogue, labelled, node_classes, pod("a"))

    assert f"NodePool/default: spec.template.metadata.labels[{ZONE_ID}] is use1-az9: {why}" in found.err
    assert "spec.template.spec.requirements" not in found.err


def test_a_pod_that_requires_an_unknown_zone_id_has_that_reason_and_no_remedy(tmp_path: Path, catalogue: Path) -> None:
    found = explain(tmp_path, catalogue, pool(), node_class(), pod("a", nodeSelector={ZONE_ID: "use1-az1"}))

    assert found.out.splitlines()[2:] == [f"default: the pod requires {ZONE_ID}, and {UNKNOWN}."]


def test_zone_ids_in_the_status_of_the_class_are_planned_with(tmp_path: Path, catalogue: Path) -> None:
    files = write(tmp_path, requires("use1-az2"), resolved(), pod("a", nodeSelector={ZONE_ID: "use1-az2"}))
    found = joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json")

    assert [node["zone"] for node in found.json["nodes"]] == ["us-east-1b"]
    assert ZONE_ID not in found.err


def test_a_zone_id_that_no_subnet_of_the_class_has_gets_a_warning(tmp_path: Path, catalogue: Path) -> None:
    found = explain(tmp_path, catalogue, requires("use1-az9"), resolved(), pod("a"))

    assert "is use1-az9: no subnet of EC2NodeClass/default is in such a zone; there are use1-az1, use1-az2" in found.err
    assert UNKNOWN not in found.out + found.err


def test_a_pool_that_only_excludes_a_zone_id_has_nodes(tmp_path: Path, catalogue: Path) -> None:
    excludes = pool(requirements=[{"key": ZONE_ID, "operator": "NotIn", "values": ["use1-az9"]}])

    assert explain(tmp_path, catalogue, excludes, node_class(), pod("a")).exit_code == 0
