"""The CRDs on a real API server: existing manifests apply unchanged, defaults are set, mistakes are refused with a
remedy.

Most requests have ``dryRun=All``: the API server validates the object without storing it, so a running stack is not
affected.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from joiner.cluster import Resources
from joiner.launching import PairedInstance
from joiner.pools import (
    NodeClaimTemplate,
    build_node_claim,
    read_manifests,
    read_node_claim,
    read_node_pool,
    write_claim_status,
    write_node_claim,
)
from joiner_local.control_plane.kube_api import ApiError, KubeApi
from tests.e2e.stack_manifests import node_pool

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "tests" / "unit" / "pools" / "manifests"
SCENARIOS = sorted((ROOT / "examples" / "scenarios").glob("*.yaml"))
MISTAKES: list[dict[str, Any]] = yaml.safe_load((MANIFESTS / "mistakes.yaml").read_text())
PATHS = {
    "NodePool": "/apis/karpenter.sh/v1/nodepools",
    "NodeClaim": "/apis/karpenter.sh/v1/nodeclaims",
    "NodeOverlay": "/apis/karpenter.sh/v1alpha1/nodeoverlays",
    "CapacityBuffer": "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers",
    "Provisioner": "/apis/karpenter.sh/v1alpha5/provisioners",
    "Machine": "/apis/karpenter.sh/v1alpha5/machines",
    "EC2NodeClass": "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    "AWSNodeTemplate": "/apis/karpenter.k8s.aws/v1alpha1/awsnodetemplates",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LEGACY_CLASS: dict[str, Any] = {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate"}
DRY = "?dryRun=All&fieldValidation=Strict"

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def api(kube: KubeApi) -> KubeApi:
    """The API server, which serves the CRDs."""
    crds = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "manifests" / "crds").glob("*.yaml"))]
    kube.apply_manifests(crds, manager="joiner")
    deadline = time.monotonic() + 30
    for path in PATHS.values():
        while not served(kube, path):
            assert time.monotonic() < deadline, f"{path} is not served"
            time.sleep(0.1)
    return kube


def served(kube: KubeApi, path: str) -> bool:
    """Wait until a new CRD is served: at first it answers 404, then 429 ("storage is (re)initializing")."""
    try:
        return kube.find(path) is not None
    except ApiError as error:
        if error.status == 429:
            return False
        raise


@pytest.fixture
def own_pool(api: KubeApi) -> Iterator[dict[str, Any]]:
    """A stored NodePool, for what dry runs cannot show."""
    name = f"crd-test-{time.monotonic_ns():x}"
    pool = api.create(PATHS["NodePool"], node_pool(name, class_name="default"))
    yield pool
    api.delete(f"{PATHS['NodePool']}/{name}", missing_ok=True)


# A `provider` without selectors takes what has the cluster's tag, and says so.
SELECTORS = [("spec.provider.subnetSelector", "info"), ("spec.provider.securityGroupSelector", "info")]
DEFAULTED = {"a-inline-provider": SELECTORS, "b-spot-limits": SELECTORS}


def tried(api: KubeApi, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the object as ``kubectl apply --dry-run=server`` does, under a unique name."""
    renamed = {**manifest, "metadata": {**manifest["metadata"], "name": f"crd-test-{manifest['metadata']['name']}"}}
    return api.call("POST", PATHS[manifest["kind"]] + DRY, renamed)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_applies_unchanged(api: KubeApi, scenario: Path) -> None:
    stored = [tried(api, manifest) for manifest in yaml.safe_load_all(scenario.read_text())]

    found = read_manifests(stored)
    assert len(found.pools) == 1
    reported = [problem for problem in found.problems if "there is no such" not in problem.remedy]
    assert [(problem.field, problem.severity) for problem in reported] == DEFAULTED.get(scenario.stem, [])


@pytest.mark.parametrize("name", ["everything.yaml", "alternatives.yaml", "claims_overlays_buffers.yaml"])
def test_the_api_server_accepts_every_field_of_every_kind(api: KubeApi, name: str) -> None:
    for manifest in yaml.safe_load_all((MANIFESTS / name).read_text()):
        assert covers(tried(api, manifest)["spec"], manifest["spec"])


def covers(stored: Any, written: Any) -> bool:
    """Return whether all fields are stored: none is pruned or changed."""
    if isinstance(written, dict):
        return isinstance(stored, dict) and all(
            key in stored and covers(stored[key], value) for key, value in written.items()
        )
    if isinstance(written, list):
        return len(stored) == len(written) and all(
            covers(one, other) for one, other in zip(stored, written, strict=True)
        )
    return bool(stored == written)


@pytest.mark.parametrize("case", [case for case in MISTAKES if "apiServer" in case], ids=lambda case: case["mistake"])
def test_a_mistake_is_refused_with_its_remedy(api: KubeApi, case: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refused:
        tried(api, case["manifest"])

    assert refused.value.status in (400, 422)
    assert case["apiServer"] in str(refused.value)


@pytest.mark.parametrize(
    "case", [case for case in MISTAKES if "apiServer" not in case], ids=lambda case: case["mistake"]
)
def test_the_api_server_accepts_mistakes_that_no_schema_can_express(api: KubeApi, case: dict[str, Any]) -> None:
    assert tried(api, case["manifest"])["spec"] is not None


def buffer(version: str = "v1beta1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"autoscaling.x-k8s.io/{version}",
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare"},
        "spec": spec,
    }


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_a_capacity_buffer_is_stored_in_both_versions_with_its_default_strategy(api: KubeApi, version: str) -> None:
    spec = {"podTemplateRef": {"name": "chunk"}, "replicas": 5, "limits": {"cpu": "20", "memory": "40Gi"}}
    path = PATHS["CapacityBuffer"].replace("v1beta1", version)

    stored = api.call("POST", path + DRY, buffer(version, **spec))["spec"]

    assert stored == {**spec, "provisioningStrategy": "buffer.x-k8s.io/active-capacity"}


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        ({"replicas": 1}, "give exactly one of podTemplateRef and scalableRef"),
        ({"podTemplateRef": {"name": "chunk"}}, "with a podTemplateRef give replicas or limits"),
        ({"podTemplateRef": {"name": "chunk"}, "replicas": -1}, "spec.replicas"),
        ({"podTemplateRef": {"name": "chunk"}, "limits": {"cpu": "a lot"}}, "spec.limits.cpu"),
    ],
)
def test_a_capacity_buffer_that_cannot_be_planned_is_refused(api: KubeApi, spec: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ApiError) as refused:
        tried(api, buffer(**spec))

    assert refused.value.status == 422 and remedy in str(refused.value)


@pytest.mark.parametrize(
    "options", [{}, {"httpTokens": "required", "httpPutResponseHopLimit": 2}], ids=["defaulted", "some of the defaults"]
)
def test_a_class_with_defaulted_metadata_options_may_get_a_launch_template(
    api: KubeApi, options: dict[str, Any]
) -> None:
    """An earlier version of the definition stored the options in every object."""
    name, selector = f"crd-test-{time.monotonic_ns():x}", {"a": "b"}
    path = f"{PATHS['AWSNodeTemplate']}/{name}"
    spec = {"subnetSelector": selector, "securityGroupSelector": selector, "metadataOptions": options}
    inline = {"launchTemplate": "mine", "metadataOptions": options}
    api.create(PATHS["AWSNodeTemplate"], {**LEGACY_CLASS, "metadata": {"name": name}, "spec": spec})
    try:
        stored = api.merge(path, {"spec": {"launchTemplate": "mine", "securityGroupSelector": None}})["spec"]
        assert len(stored["metadataOptions"]) == 4
        with pytest.raises(ApiError, match="launchTemplate excludes the fields that it decides"):
            api.merge(path, {"spec": {"metadataOptions": {"httpTokens": "optional"}}})
    finally:
        api.delete(path)

    assert len(tried(api, inline_provider(inline))["spec"]["provider"]["metadataOptions"]) == 4
    other = {**inline, "metadataOptions": {"httpPutResponseHopLimit": 1}}
    with pytest.raises(ApiError, match="launchTemplate excludes the fields that it decides"):
        tried(api, inline_provider(other))


def inline_provider(provider: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "inline"},
        "spec": {"provider": provider},
    }


def test_defaults_are_filled_in(api: KubeApi) -> None:
    pool = tried(api, node_pool("plain", class_name="default"))["spec"]

    assert pool["disruption"] == {
        "budgets": [{"nodes": "10%"}],
        "consolidateAfter": "0s",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
    }
    assert pool["template"]["spec"]["expireAfter"] == "720h"


def test_an_empty_pool_reads_the_same_before_and_after_the_api_server(api: KubeApi) -> None:
    before, after = (
        read_node_pool(node_pool("crd-test-plain", class_name="default")),
        read_node_pool(tried(api, node_pool("plain", class_name="default"))),
    )

    assert (before.disruption, before.expire_after) == (after.disruption, after.expire_after)


@pytest.mark.parametrize("generation", ["legacy", "v1"])
def test_a_stored_node_claim_is_read_back_unchanged(api: KubeApi, generation: str) -> None:
    scenario = SCENARIOS[2] if generation == "legacy" else MANIFESTS / "everything.yaml"
    pool = read_manifests(yaml.safe_load_all(scenario.read_text())).pools[0]
    claim = build_node_claim(
        pool,
        NodeClaimTemplate(pool.requirements, Resources.of(cpu="1900m", memory="3Gi")),
        suffix="crdtest",
        lease=7,
        execution="up-1",
    )

    read_back = read_node_claim(api.call("POST", PATHS[claim.kind] + DRY, write_node_claim(claim)))

    assert read_back.requirements == claim.requirements
    assert read_back.requests == claim.requests
    assert (read_back.taints, read_back.startup_taints) == (claim.taints, claim.startup_taints)
    assert (read_back.labels, read_back.annotations) == (claim.labels, claim.annotations)
    assert (read_back.class_ref, read_back.expire_after) == (claim.class_ref, claim.expire_after)
    assert read_back.finalizers == ("karpenter.sh/termination",)


def test_the_spec_of_a_node_claim_is_immutable_and_its_status_is_not(api: KubeApi, own_pool: dict[str, Any]) -> None:
    pool = read_node_pool(own_pool)
    claim = build_node_claim(
        pool, NodeClaimTemplate(pool.requirements, Resources.of(cpu=1)), suffix="frozen", lease=0, execution="test"
    )
    path = f"{PATHS['NodeClaim']}/{claim.name}"
    api.create(PATHS["NodeClaim"], write_node_claim(claim))
    launched = claim.as_launched(
        PairedInstance("i-0123456789abcdef0", claim.name, "m5.large", "us-east-1a", "spot", "ami-1"),
        at=datetime(2026, 11, 21, 5, 17, 28, tzinfo=UTC),
        capacity=Resources.of(cpu=2),
        allocatable=Resources.of(cpu="1930m"),
    )

    with pytest.raises(ApiError, match="a claim's spec cannot change"):
        api.merge(path, {"spec": {"resources": {"requests": {"cpu": "2"}}}})
    api.merge(path, {"metadata": {"labels": dict(launched.labels)}})
    read_back = read_node_claim(api.merge(f"{path}/status", write_claim_status(launched)))
    api.merge(path, {"metadata": {"finalizers": []}})
    api.delete(path)

    assert (read_back.launched, read_back.registered) == (True, False)
    assert (read_back.provider_id, read_back.capacity_type) == ("aws:///us-east-1a/i-0123456789abcdef0", "spot")
    assert (read_back.capacity, read_back.allocatable) == (launched.capacity, launched.allocatable)
    assert read_back.conditions == launched.conditions


def test_replicas_cannot_be_added_to_a_pool(api: KubeApi, own_pool: dict[str, Any]) -> None:
    with pytest.raises(ApiError, match="a pool cannot begin or cease to have replicas"):
        api.merge(f"{PATHS['NodePool']}/{own_pool['metadata']['name']}", {"spec": {"replicas": 3}})


def test_a_pool_with_replicas_has_the_scale_subresource(api: KubeApi) -> None:
    path, static = f"{PATHS['NodePool']}/crd-test-static", node_pool("crd-test-static", class_name="default")
    api.create(PATHS["NodePool"], {**static, "spec": {**static["spec"], "replicas": 0}})

    api.merge(f"{path}/scale", {"spec": {"replicas": 2}})
    scaled = read_node_pool(api.get(path))
    api.delete(path)

    assert scaled.replicas == 2


def test_kubectl_prints_the_columns(api: KubeApi) -> None:
    columns = {
        crd["spec"]["names"]["kind"]: [
            column["name"] for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]
        ]
        for crd in api.items(CRDS)
        if crd["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "joiner"
    }

    claim = ["Type", "Capacity", "Zone", "Node", "Ready", "Age"]
    assert columns["NodeClaim"][:6] == columns["Machine"][:6] == claim
    assert columns["NodePool"][:4] == ["NodeClass", "Nodes", "Ready", "Age"]
    assert columns["Provisioner"][:4] == ["Template", "Nodes", "Ready", "Age"]
    assert columns["CapacityBuffer"] == ["Strategy", "Replicas", "Provisioning", "Reason", "Age"]
    assert all(
        "karpenter" in crd["spec"]["names"]["categories"]
        for crd in api.items(CRDS)
        if crd["spec"]["names"]["kind"] in columns and crd["spec"]["group"].startswith("karpenter")
    )
