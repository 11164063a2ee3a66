"""What `joiner plan` and `joiner explain` say of instance types that a class excludes, of invalid pools that a pod
names, and of claims and static pools without nodes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.command_runs import joiner, node_class, pod, pool, write

POOL = "karpenter.sh/nodepool"
M5 = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
ARM64 = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
CARD_0 = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
CARD_3 = {"networkCardIndex": 3, "deviceIndex": 1, "interfaceType": "efa-only"}
EXCLUDES = "its class EC2NodeClass/{} excludes every instance type that the pod and the pool allow; {}: {}"
REMEDY = "change this field of the class, or allow other instance types"

CASES: Mapping[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "windows": (
        {"amiSelectorTerms": [{"alias": "windows2022@latest"}]},
        ARM64,
        "spec.amiSelectorTerms",
        "its images are for amd64, and a1.2xlarge is arm64",
    ),
    "card": (
        {"networkInterfaces": [CARD_0, CARD_3]},
        M5,
        "spec.networkInterfaces",
        "m5.large has no network card 3",
    ),
    "prefixes": (
        {"ipPrefixCount": 200},
        M5,
        "spec.ipPrefixCount",
        "an interface of m5.large takes at most 9 prefixes",
    ),
    "vms": (
        {"cpuOptions": {"nestedVirtualization": "enabled"}},
        M5,
        "spec.cpuOptions.nestedVirtualization",
        "m5.large cannot run virtual machines",
    ),
}


def named(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}}


def pool_of(name: str, *requirements: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}
    return pool(name, requirements, node={"nodeClassRef": ref}, **spec)


def claim(name: str, cpu: str) -> dict[str, Any]:
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {"nodeClassRef": ref, "requirements": [M5], "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def excluded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class, a pool and a pod of each case."""
    return write(
        tmp_path_factory.mktemp("excluded"),
        *(
            manifest
            for name, (spec, requirement, _, _) in CASES.items()
            for manifest in (
                named(node_class(**spec), name),
                pool_of(name, requirement),
                pod(name, nodeSelector={POOL: name}),
            )
        ),
    )


def test_a_pending_pod_is_told_what_the_class_of_its_pool_excludes(excluded: Path) -> None:
    found = joiner("plan", "-f", excluded, "-o", "json")

    reasons = {
        one["pod"].removeprefix("default/"): reason["reason"]
        for one in found.json["pending"]
        for reason in one["reasons"]
        if one["pod"] == f"default/{reason['nodePool']}"
    }
    assert reasons == {
        name: f"{EXCLUDES.format(name, field, cause)}: {REMEDY}" for name, (_, _, field, cause) in CASES.items()
    }
    conflicts = [one["object"] for one in found.json["problems"] if one["field"] == "spec.template.spec.nodeClassRef"]
    assert sorted(conflicts) == sorted(f"NodePool/{name}" for name in CASES)


def test_an_explanation_groups_the_types_by_the_field_that_excludes_them(excluded: Path) -> None:
    found = joiner("explain", "pod", "prefixes", "-f", excluded)

    assert "      1  m5.large" in found.out
    assert "spec.ipPrefixCount of EC2NodeClass/prefixes excludes it" in found.out


def test_a_static_pool_is_told_what_its_class_excludes(tmp_path: Path, catalogue: Path) -> None:
    file = write(tmp_path, node_class(cpuOptions={"nestedVirtualization": "enabled"}), pool(replicas=2))

    found = joiner("plan", "-f", file, "--catalogue", catalogue, "-o", "json")

    assert found.exit_code == 2
    (lacking,) = found.json["unlaunched"]
    assert (lacking["object"], lacking["nodes"]) == ("NodePool/default", 2)
    assert lacking["reason"].startswith("its class EC2NodeClass/default excludes every instance type that the pool al")


def test_a_static_pool_that_is_being_deleted_lacks_no_nodes(tmp_path: Path, catalogue: Path) -> None:
    leaving = {
        "name": "default",
        "deletionTimestamp": "2026-11-28T10:00:00Z",
        "finalizers": ["karpenter.sh/termination"],
    }
    file = write(tmp_path, node_class(), {**pool(replicas=2), "metadata": leaving})

    found = joiner("plan", "-f", file, "--catalogue", catalogue, "-o", "json")

    assert (found.exit_code, found.json["nodes"], found.json.get("unlaunched")) == (0, [], None)


@pytest.mark.parametrize("output", ["table", "html", "yaml"])
def test_a_claim_that_cannot_be_launched_is_in_the_result(tmp_path: Path, catalogue: Path, output: str) -> None:
    file = write(tmp_path, node_class(), claim("large", "64"))

    found = joiner("plan", "-f", file, "--catalogue", catalogue, "-o", output)

    assert found.exit_code == 2
    assert "NodeClaim/large" in found.out
    assert "no instance type that it allows holds its resources.requests (cpu: 64)" in found.out
    assert (
        output == "yaml"
        or found.out.startswith("1 node of claims and static pools not launched")
        or (
            "<h1>1 node of claims and static pools not launched.</h1>" in found.out
            and "<h2>Not launched</h2>" in found.out
        )
    )


def test_a_misspelt_effect_of_a_claims_taint_is_reported_and_the_others_are_planned(
    tmp_path: Path, catalogue: Path
) -> None:
    broken = claim("small", "1")
    broken["spec"]["taints"] = [{"key": "a", "effect": "NoSchedul"}]

    found = joiner("plan", "-f", write(tmp_path, node_class(), pool(), pod("a"), broken), "--catalogue", catalogue)

    assert found.exit_code == 1
    assert "NodeClaim/small: spec.taints[0].effect is NoSchedul: " in found.err
    assert "1 new node for 1 pod" in found.out


def test_a_claim_that_is_launched_is_no_reason_for_another_exit_code(tmp_path: Path, catalogue: Path) -> None:
    found = joiner("plan", "-f", write(tmp_path, node_class(), claim("small", "1")), "--catalogue", catalogue)

    assert found.exit_code == 0
    assert "not launched" not in found.out


@pytest.mark.parametrize("others", [[], [pool("other")]], ids=["alone", "beside another pool"])
def test_a_pod_is_told_that_the_pool_it_selects_is_invalid(
    tmp_path: Path, catalogue: Path, others: list[dict[str, Any]]
) -> None:
    file = write(tmp_path, node_class(), pool("web", weight=300), *others, pod("a", nodeSelector={POOL: "web"}))

    found = joiner("plan", "-f", file, "--catalogue", catalogue, "-o", "json")

    (pending,) = found.json["pending"]
    assert pending["reasons"][0]["nodePool"] == "web"
    assert pending["reasons"][0]["reason"].startswith("NodePool/web is invalid: spec.weight is 300")


def test_an_invalid_pool_is_a_reason_for_the_pods_that_might_use_it(tmp_path: Path, catalogue: Path) -> None:
    waiting = [
        pod("any", nodeSelector={"kubernetes.io/arch": "s390x"}),
        pod("other", nodeSelector={"kubernetes.io/arch": "s390x", POOL: "other"}),
        pod("lucky"),
    ]
    file = write(tmp_path, node_class(), pool("web", weight=300), pool("other"), *waiting)

    found = joiner("plan", "-f", file, "--catalogue", catalogue, "-o", "json")

    pools = {one["pod"]: [each["nodePool"] for each in one["reasons"]] for one in found.json["pending"]}
    assert pools == {"default/any": ["other", "web"], "default/other": ["other"]}


def test_an_overlay_that_changes_nothing_is_a_warning(tmp_path: Path, catalogue: Path) -> None:
    idle = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "idle"},
        "spec": {"requirements": [], "priceAdjustment": "+0%"},
    }

    found = joiner("plan", "-f", write(tmp_path, node_class(), pool(), pod("p"), idle), "--catalogue", catalogue)

    assert found.exit_code == 0
    assert "warning: " in found.err
    assert "NodeOverlay/idle: it changes no offering that meets it, because they have what it sets already" in found.err


def test_an_overlay_that_loses_against_another_is_not_counted_as_applied(tmp_path: Path, catalogue: Path) -> None:
    overlays = [
        {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": name},
            "spec": {"requirements": [], "price": price, "weight": 7},
        }
        for name, price in (("a", "2"), ("b", "3"))
    ]
    file = write(tmp_path, node_class(), pool(), pod("p"), *overlays)

    found = joiner("plan", "-f", file, "--catalogue", catalogue, "-o", "json")

    assert "NodeOverlay/a: it is not applied, and NodeOverlay/b is, the last of the two by name: both have" in found.err
    assert "2 NodeOverlays (1 not applied)" in found.err
    assert found.exit_code == 1
    assert "joiner: the plan is without 1 NodeOverlay that contradicts another\n" in found.err
    unknown = joiner("explain", "pod", "q", "-f", file, "--catalogue", catalogue)
    assert (unknown.exit_code, "invalid" in unknown.err) == (1, False)
    assert {node["pricePerHour"] > 3 for node in found.json["nodes"]} == {True}
