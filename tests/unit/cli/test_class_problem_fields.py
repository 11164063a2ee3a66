"""The JSON of a plan has field and value of a class's problem; its text is that of the class's condition."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.command_runs import joiner, node_class, pod, pool, write
from tests.unit.cli.test_unusable_classes import ASSUMED, BEYOND_GP3, OF_NODE_POOLS, alias, provisioner

SCRIPT = "#!/bin/sh\nreboot"
FOR_BOTH = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}, "amiFamily": "AL2"}


@pytest.mark.parametrize(
    ("manifest", "field_and_value", "beginning"),
    [
        (alias("bottlerocket@latest", userData=SCRIPT), ("spec.userData", SCRIPT), "Bottlerocket reads TOML"),
        (OF_NODE_POOLS["a release of Windows"][0], ("spec.amiSelectorTerms", "[{alias: windows2022@v1}]"), "the alias"),
        (
            OF_NODE_POOLS["a volume that EBS does not have"][0],
            ("spec.blockDeviceMappings[0].ebs.iops", "90000"),
            "90000: gp3 volumes have 3000 to 80000 IOPS",
        ),
        (
            alias("bottlerocket@latest", kubelet={"podsPerCore": 2}),
            ("spec.kubelet.podsPerCore", "2"),
            "Bottlerocket has",
        ),
        (
            {**node_class(), "spec": ASSUMED["neither role nor instance profile"][0]},
            ("spec.role", ""),
            "role and instanceProfile are not set",
        ),
        (alias("bottlerocket@v1.50.0"), ("spec.amiSelectorTerms", "[{alias: bottlerocket@v1.50.0}]"), "the release"),
        (
            provisioner(provider={**FOR_BOTH, "blockDeviceMappings": BEYOND_GP3}),
            ("spec.provider.blockDeviceMappings[0].ebs.iops", "90000"),
            "90000: gp3 volumes",
        ),
    ],
)
def test_a_problem_of_a_class_has_its_field_and_value(
    manifest: dict[str, Any], field_and_value: tuple[str, str], beginning: str, tmp_path: Path, catalogue: Path
) -> None:
    field, value = field_and_value
    pools = [pool()] if manifest["kind"] == "EC2NodeClass" else []
    answer = joiner("plan", "-f", write(tmp_path, *pools, manifest, pod("a")), "--catalogue", catalogue, "-o", "json")

    (found,) = [one for one in answer.json["problems"] if one["message"].startswith(beginning)]
    named = beginning.split(maxsplit=1)[0] in ("the", "role")  # these sentences name the field themselves
    text = found["message"] if named else f"{field}: {found['message']}"
    assert (found["object"], found["field"], found["value"]) == (f"{manifest['kind']}/default", field, value)
    assert f"{manifest['kind']}/default: {text}\n" in answer.err


@pytest.mark.parametrize(
    ("manifest", "field", "value"),
    [
        (pod("a", tolerations=[{"effect": "NoSchedule"}]), "spec.tolerations[0].operator", ""),
        (
            node_class(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "9Gi"}}] * 2),
            "spec.blockDeviceMappings[1].deviceName",
            "/dev/xvda",
        ),
    ],
    ids=["an operator that is not written", "one device of a list"],
)
def test_a_value_is_that_of_the_field_that_is_named(
    manifest: dict[str, Any], field: str, value: str, tmp_path: Path, catalogue: Path
) -> None:
    answer = joiner("plan", "-f", write(tmp_path, manifest, pool()), "--catalogue", catalogue, "-o", "json")

    assert (field, value) in [(one["field"], one["value"]) for one in answer.json["problems"]]


def test_an_inline_class_is_named_by_its_field(tmp_path: Path) -> None:
    only = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["a1.2xlarge"]}
    arm64 = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
    inline = provisioner(requirements=[only, arm64], provider={**FOR_BOTH, "amiFamily": "AL2023"})

    answer = joiner("plan", "-f", write(tmp_path, inline, pod("a")), "-o", "json")

    (problem,) = [one for one in answer.json["problems"] if one["field"] == "spec.provider"]
    assert (problem["object"], problem["value"]) == ("Provisioner/default", "")
    (reason,) = answer.json["pending"][0]["reasons"]
    assert reason["reason"].startswith("its inline class (spec.provider) excludes every instance type")
    assert "Inline/" not in answer.err + answer.out
