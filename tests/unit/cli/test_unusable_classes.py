"""`joiner plan` and `joiner explain` have no nodes of pools that the cluster would refuse, and say why."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from joiner import names
from tests.unit.cli.command_runs import CommandResult, joiner, node_class, pod, pool, write

ANY = {"a": "b"}
IMAGE = [{"id": "ami-0123456789abcdef0"}]
BEYOND_GP3 = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi", "volumeType": "gp3", "iops": 90000}}]


def alias(name: str, **spec: Any) -> dict[str, Any]:
    return node_class(amiSelectorTerms=[{"alias": name}], **spec)


def provisioner(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "default"}, "spec": spec}


def template(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "default"},
        "spec": {"subnetSelector": ANY, "securityGroupSelector": ANY, **spec},
    }


def plan(folder: Path, catalogue: Path, *manifests: Mapping[str, Any]) -> CommandResult:
    return joiner("plan", "-f", write(folder, *manifests, pod("a")), "--catalogue", catalogue, "-o", "json")


OF_NODE_POOLS: Mapping[str, tuple[dict[str, Any], str]] = {
    "Bottlerocket with a script": (
        alias("bottlerocket@latest", userData="#!/bin/sh\nreboot"),
        "spec.userData: Bottlerocket reads TOML, and this is none",
    ),
    "a release of Windows": (
        alias("windows2022@v1"),
        "the alias windows2022@v1: AWS names only the latest images of Windows: use latest",
    ),
    "a parameter of the account": (
        node_class(amiFamily="AL2023", amiSelectorTerms=[{"ssmParameter": "/my/image"}]),
        "spec.amiSelectorTerms[0].ssmParameter: /my/image: only the public parameters of AWS, /aws/service/..., can be "
        "read, and no setting allows others: name the image by id, name or tags",
    ),
    "a volume that EBS does not have": (
        node_class(blockDeviceMappings=BEYOND_GP3),
        "spec.blockDeviceMappings[0].ebs.iops: 90000: gp3 volumes have 3000 to 80000 IOPS: change iops",
    ),
    "a root volume that nothing boots from": (
        node_class(
            blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "500Gi", "volumeType": "st1"}}]
        ),
        "spec.blockDeviceMappings[0].ebs.volumeType: st1: no instance boots from it",
    ),
    "user data beyond EC2's limit": (
        node_class(userData="é" * 9000),
        "spec.userData: it has 18000 bytes, and EC2 takes 16384: shorten it",
    ),
}


@pytest.mark.parametrize(("refused", "why"), OF_NODE_POOLS.values(), ids=OF_NODE_POOLS)
def test_a_class_that_the_cluster_refuses_gets_no_node_and_its_reason(
    refused: dict[str, Any], why: str, tmp_path: Path, catalogue: Path
) -> None:
    answer = plan(tmp_path, catalogue, pool(), refused)

    assert (answer.exit_code, answer.json["nodes"]) == (2, [])
    reason = answer.json["pending"][0]["reasons"][0]["reason"]
    assert reason.startswith(f"its class EC2NodeClass/default is not ready: {why}")
    assert f"EC2NodeClass/default: {why}" in answer.err
    assert "the plan has no nodes of it" in answer.err


ASSUMED: Mapping[str, tuple[dict[str, Any], str]] = {
    "neither role nor instance profile": (
        {key: value for key, value in node_class()["spec"].items() if key != "role"},
        "role and instanceProfile are not set: nodes have the default of the settings (nodeRoles.names)",
    ),
    "a family that ends with a version": (
        alias("al2@latest")["spec"],
        "AWS has images of AL2 for Kubernetes up to 1.32: this plan assumes that the cluster has such a version",
    ),
    "a release": (
        alias("bottlerocket@v1.50.0")["spec"],
        "the release v1.50.0 is not looked up: this plan assumes that AWS has it for the cluster",
    ),
    "a licence": (
        alias("windows2022@latest")["spec"],
        "plans, limits and ceilings have the prices of Linux for its nodes, without the licence of Windows, which EC2 "
        "bills by vCPU: add it with a NodeOverlay (priceAdjustment)",
    ),
}


UNCHECKED = (
    "whether the settings of the cluster allow nodes (nodeRoles) is not checked: give them with --settings "
    "clusters/NAME.yaml"
)


@pytest.mark.parametrize(("spec", "note"), ASSUMED.values(), ids=ASSUMED)
def test_a_plan_without_aws_notes_what_it_assumes_of_a_class(
    spec: dict[str, Any], note: str, tmp_path: Path, catalogue: Path
) -> None:
    tainted = pool(node={"taints": [{"key": "own", "effect": "NoSchedule"}]})
    answer = plan(tmp_path, catalogue, tainted, {**node_class(), "spec": spec})

    notes = [line.rpartition("EC2NodeClass/default: ")[2] for line in answer.err.splitlines() if "note: " in line]
    assert sorted(notes) == sorted([note, UNCHECKED] if "role" in spec else [note])


@pytest.mark.parametrize("family", ["AL2", "AL2023", "Bottlerocket", "Custom"])
def test_a_class_of_each_family_of_linux_gets_nodes(family: str, tmp_path: Path, catalogue: Path) -> None:
    images = {"amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}]} if family == "Custom" else {}
    named = node_class(amiFamily=family, **images) if images else alias(f"{family.lower()}@latest")

    answer = plan(tmp_path, catalogue, pool(), named)

    assert (answer.exit_code, len(answer.json["nodes"]), answer.json["pending"]) == (0, 1, [])


@pytest.mark.parametrize("family", ["AL2", "Bottlerocket", "Ubuntu"])
def test_a_legacy_class_of_each_family_of_linux_gets_nodes(family: str, tmp_path: Path, catalogue: Path) -> None:
    images = {"amiSelector": {"aws-ids": "ami-0123456789abcdef0"}} if family == "Ubuntu" else {}
    manifests = [provisioner(providerRef={"name": "default"}), template(amiFamily=family, **images)]

    answer = plan(tmp_path, catalogue, *manifests)

    assert (answer.exit_code, len(answer.json["nodes"]), answer.json["pending"]) == (0, 1, [])


def test_pods_of_windows_get_nodes_of_windows_only(tmp_path: Path, catalogue: Path) -> None:
    windows = pod("a")
    windows["spec"]["nodeSelector"] = {"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.20348"}
    address = {"vpc.amazonaws.com/PrivateIPv4Address": "1"}
    resources = windows["spec"]["containers"][0]["resources"]
    windows["spec"]["containers"][0]["resources"] = {"requests": resources["requests"] | address, "limits": address}
    outcomes = {}
    for name in ("windows2022@latest", "windows2019@latest", "al2023@latest"):
        files = write(tmp_path, pool(), alias(name), windows)
        answer = joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json")
        outcomes[name] = (answer.exit_code, len(answer.json["nodes"]))

    assert outcomes == {"windows2022@latest": (0, 1), "windows2019@latest": (2, 0), "al2023@latest": (2, 0)}


def test_explain_gives_the_same_reason(tmp_path: Path, catalogue: Path) -> None:
    files = write(tmp_path, pool(), alias("windows2022@v1"), pod("a"))
    answer = joiner("explain", "pod", "a", "-f", files, "--catalogue", catalogue)

    assert answer.exit_code == 2
    assert "default: its class EC2NodeClass/default is not ready: the alias windows2022@v1" in answer.out
    assert "FIRST RULE" not in answer.out
    assert "What would have to change" not in answer.out


def test_explain_names_an_unusable_class_beside_the_label_that_a_pod_lacks(tmp_path: Path, catalogue: Path) -> None:
    files = write(tmp_path, pool(), alias("windows2022@v1"), pod("a", nodeSelector={"team": "x"}))
    answer = joiner("explain", "pod", "a", "-f", files, "--catalogue", catalogue)

    first, second = answer.out.splitlines()[2:]
    assert first == "default: incompatible requirements: the pod wants team In [x], and no node of this pool has that."
    assert second.startswith(
        "  No other pod gets a node of it: its class EC2NodeClass/default is not ready: the alias windows2022@v1"
    )


def test_a_refused_release_of_windows_is_not_assumed(tmp_path: Path, catalogue: Path) -> None:
    tainted = pool(node={"taints": [{"key": "own", "effect": "NoSchedule"}]})
    answer = plan(tmp_path, catalogue, tainted, alias("windows2022@v1.0.0"))

    assert "AWS names only the latest images of Windows: use latest" in answer.err
    assert "is not looked up" not in answer.err


def test_assumptions_about_images_are_notes(tmp_path: Path, catalogue: Path) -> None:
    chosen = node_class(amiFamily="Custom", amiSelectorTerms=IMAGE, kubelet={"maxPods": 20})
    answer = plan(tmp_path, catalogue, pool(), chosen)

    assert answer.exit_code == 0
    assert [(one["message"], one["severity"]) for one in answer.json["problems"]] == [
        (
            "it is not set: nodes of the family Custom join only if the image itself makes them",
            "warning",
        ),
        (
            "nodes of the family Custom do not get it from here, and plans count it as what userData sets on them: "
            "write the same there",
            "warning",
        ),
        (UNCHECKED, "info"),
        (
            "images chosen by id, name, tags or parameter are not looked up: this plan assumes one for each "
            "architecture",
            "info",
        ),
    ]


def test_the_images_in_the_status_of_a_class_choose_the_architecture(tmp_path: Path, catalogue: Path) -> None:
    arm = [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]
    chosen = node_class(
        amiFamily="Custom", amiSelectorTerms=IMAGE, userData=f"kubelet --register-with-taints={names.UNREGISTERED}"
    )
    answer = plan(tmp_path, catalogue, pool(), {**chosen, "status": {"amis": [{**IMAGE[0], "requirements": arm}]}})

    assert answer.json["problems"] == []
    assert [node["labels"]["kubernetes.io/arch"] for node in answer.json["nodes"]] == ["arm64"]


# The conditions of a dump
# ----------------------------------------------------------------------------------------------------------------------


def conditions(**status: str) -> dict[str, Any]:
    return {"conditions": [{"type": name, "status": value, "message": "why"} for name, value in status.items()]}


NO_SUBNET = conditions(Ready="False", NodeClassReady="False", ValidationSucceeded="True")


def test_a_pool_that_was_not_ready_for_its_class_follows_a_class_among_the_manifests(
    tmp_path: Path, catalogue: Path
) -> None:
    stale = {**pool(), "status": NO_SUBNET}

    alone, beside = (plan(tmp_path, catalogue, stale, *more) for more in ([], [node_class()]))

    assert (alone.exit_code, beside.exit_code) == (2, 0)
    assert alone.json["pending"][0]["reasons"][0]["reason"] == "NodePool/default is not ready: why"


def test_a_provisioner_is_not_ready_because_of_its_inline_class(tmp_path: Path, catalogue: Path) -> None:
    answer = plan(tmp_path, catalogue, {**provisioner(provider={"instanceProfile": "gone"}), "status": NO_SUBNET})

    assert answer.exit_code == 2
    assert answer.json["pending"][0]["reasons"][0]["reason"] == "Provisioner/default is not ready: why"


def test_a_condition_about_an_older_generation_or_without_an_answer_closes_no_pool(
    tmp_path: Path, catalogue: Path
) -> None:
    old = {"conditions": [{"type": "Ready", "status": "False", "message": "why", "observedGeneration": 1}]}
    changed = {**pool(), "metadata": {"name": "default", "generation": 2}, "status": old}
    new = {**node_class(), "status": conditions(Ready="Unknown")}

    answer = plan(tmp_path, catalogue, changed, new)

    assert answer.exit_code == 0
    assert [one["message"] for one in answer.json["problems"]] == [
        "why; this plan counts it as ready",
        "why; this is about an older version of it; this plan counts it as ready",
    ]


def test_a_class_that_is_being_deleted_gets_no_node(tmp_path: Path, catalogue: Path) -> None:
    going = node_class()
    going["metadata"] |= {"deletionTimestamp": "2026-11-21T12:00:00Z", "finalizers": ["joiner.dev/termination"]}

    answer = plan(tmp_path, catalogue, pool(), going)

    assert answer.exit_code == 2
    assert "its class EC2NodeClass/default is being deleted" in answer.json["pending"][0]["reasons"][0]["reason"]


def test_an_invalid_class_gets_no_node(tmp_path: Path, catalogue: Path) -> None:
    answer = plan(tmp_path, catalogue, pool(), node_class(rolle="x"))

    assert (answer.exit_code, answer.json["nodes"]) == (1, [])
    assert "EC2NodeClass/default" in answer.json["pending"][0]["reasons"][0]["reason"]


def test_a_plan_without_aws_says_that_it_does_not_read_a_launch_template(tmp_path: Path, catalogue: Path) -> None:
    spec = {"provider": {"launchTemplate": "mine"}}

    made = plan(tmp_path, catalogue, provisioner(**spec)).json

    assert len(made["nodes"]) == 1
    notes = [each for each in made["problems"] if "launch template" in each["message"]]
    assert [(each["object"], each["severity"]) for each in notes] == [("Provisioner/default", "info")]


def test_a_class_that_no_pool_names_is_checked_like_the_others(tmp_path: Path, catalogue: Path) -> None:
    refused = {**alias("bottlerocket@latest", userData="#!/bin/sh\nreboot"), "metadata": {"name": "spare"}}

    answer = plan(tmp_path, catalogue, pool(), node_class(), refused)

    assert (answer.exit_code, len(answer.json["nodes"])) == (0, 1)
    assert "warning: " in answer.err and "EC2NodeClass/spare: spec.userData: Bottlerocket reads TOML" in answer.err
    assert "EC2NodeClass/spare: whether the settings of the cluster allow nodes (nodeRoles) is not chec" in answer.err


def test_what_a_plan_assumes_about_a_class_is_not_said_of_one_that_it_does_not_use(
    tmp_path: Path, catalogue: Path
) -> None:
    chosen = {**node_class(amiFamily="AL2023", amiSelectorTerms=IMAGE), "metadata": {"name": "spare"}}

    answer = plan(tmp_path, catalogue, pool(), node_class(), chosen)

    assert "this plan assumes" not in answer.err


def test_a_class_that_is_not_among_the_manifests_has_types_that_al2023_boots_on(tmp_path: Path) -> None:
    arm64 = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
    declared, absent = tmp_path / "declared", tmp_path / "absent"
    for folder, classes in ((declared, [node_class()]), (absent, [])):
        folder.mkdir()
        write(folder, pool(requirements=[arm64]), *classes, pod("a", cpu="3"))

    (with_class,), (without,) = (
        joiner("plan", "-f", folder, "-o", "json").json["nodes"] for folder in (declared, absent)
    )

    assert not without["instanceType"].startswith("a1.")
    assert without == with_class


NO_CLASS = "its class EC2NodeClass/default does not exist: create it"


def refused_claim(reason: str = "NotLaunchable", **condition: Any) -> dict[str, Any]:
    message = f"no instance is launched for it: {NO_CLASS}"
    launched = {"type": "Launched", "status": "False", "reason": reason, "message": message, **condition}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "mine", "generation": 2},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
        },
        "status": {"conditions": [launched]},
    }


def test_nothing_is_assumed_about_the_missing_class_of_a_pool_that_is_not_ready(
    tmp_path: Path, catalogue: Path
) -> None:
    answer = plan(tmp_path, catalogue, {**pool(), "status": NO_SUBNET})

    assert (answer.exit_code, answer.json["nodes"]) == (2, [])
    assert "is assumed" not in answer.err


def test_a_claim_that_the_cluster_does_not_launch_for_want_of_its_class_has_no_node(
    tmp_path: Path, catalogue: Path
) -> None:
    answer = joiner("plan", "-f", write(tmp_path, refused_claim()), "--catalogue", catalogue, "-o", "json")

    assert (answer.exit_code, answer.json["nodes"]) == (2, [])
    reason = f"status.conditions[Launched] is False: {NO_CLASS}"
    assert [(one["object"], one["reason"]) for one in answer.json["unlaunched"]] == [("NodeClaim/mine", reason)]
    assert f"NodeClaim/mine: no instance is launched for it: {reason}" in answer.err
    assert "is assumed" not in answer.err


@pytest.mark.parametrize(
    "manifests",
    [
        [refused_claim(), node_class()],
        [refused_claim(observedGeneration=1)],
        [refused_claim("InsufficientCapacity")],
        [refused_claim(status="Unknown")],
    ],
    ids=["the class is there now", "the claim is newer", "EC2 was asked", "undecided"],
)
def test_a_claim_whose_status_does_not_decide_is_planned(
    manifests: list[dict[str, Any]], tmp_path: Path, catalogue: Path
) -> None:
    answer = joiner("plan", "-f", write(tmp_path, *manifests), "--catalogue", catalogue, "-o", "json")

    assert (answer.exit_code, len(answer.json["nodes"])) == (0, 1)
