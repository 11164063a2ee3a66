"""Schema errors of a manifest are reported together with invalid values, with examples as remedies."""

from collections.abc import Iterator
from typing import Any

import pytest

from joiner_cli.manifests.openapi_schemas import Schemas
from joiner_cli.manifests.pattern_remedies import REMEDIES
from tests.unit.cli.command_runs import deployment, node_class, pod, pool
from tests.unit.cli.manifest_reading import read_objects, refusals


@pytest.mark.parametrize(
    ("spec", "others"),
    [
        ({"replicaz": 3}, ["spec.template.spec.tolerations[0].value"]),
        ({"replicas": "3"}, ["spec.template.spec.tolerations[0].value"]),
        (
            {"selector": {"matchLabels": {"app": 5}}},
            ["spec.template.metadata.labels", "spec.template.spec.tolerations[0].value"],
        ),
        ({"selektor": {}, "selector": None}, ["spec.template.spec.tolerations[0].value"]),
        ({"template": None}, []),
    ],
)
def test_a_value_is_checked_beside_a_schema_error_that_cannot_affect_it(
    spec: dict[str, Any], others: list[str]
) -> None:
    manifest = deployment("web", 1, tolerations=[{"key": "a", "operator": "Exists", "value": "b"}])
    manifest["metadata"]["labels"] = {"app": "a b"}
    manifest["spec"] |= spec
    reported = [one.field for one in read_objects(manifest).errors]

    assert reported[-len(others) - 1 :] == ["metadata.labels[app]", *others]
    assert len(reported) == len(set(reported))


@pytest.mark.parametrize("value", ["many", "9223372036854775808"])
def test_an_invalid_number_is_reported_in_all_kinds_beside_a_schema_error(value: str) -> None:
    larger = {"key": "size", "operator": "Gt", "values": [value]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [larger]}]}}
    affinity = {"nodeAffinity": terms}
    place = (
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        ".nodeSelectorTerms[0].matchExpressions[0].values[0]"
    )
    values = [pod("a", affinity=affinity), deployment("web", 1, affinity=affinity), pool(requirements=[larger])]
    shape = pod("b", contaners=[])

    reported = [f"{one.object} {one.field}" for one in read_objects(*values).errors]

    assert reported == [
        f"Pod/default/a spec.{place}",
        f"Deployment/shop/web spec.template.spec.{place}",
        "NodePool/default spec.template.spec.requirements[0].values",
    ]
    assert sorted(f"{one.object} {one.field}" for one in read_objects(shape, *values).errors) == sorted(
        [*reported, "Pod/default/b spec.contaners"]
    )


def test_values_and_schema_errors_of_a_pool_are_reported_together() -> None:
    wrong = pool(
        requirements=[{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spots"]}],
        wieght=5,
        limits={"cpu": "x"},
    )

    assert [one.field for one in read_objects(wrong).errors] == [
        "spec.wieght",
        "spec.limits[cpu]",
        "spec.template.spec.requirements[0].values",
    ]


def test_a_class_without_selectors_gets_an_example() -> None:
    spec = {"role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}], "securityGroupSelectorTerms": []}

    assert refusals(
        {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": spec}
    ) == [
        "EC2NodeClass/default: spec.securityGroupSelectorTerms is []: give 1 to 30 items, "
        "such as [{tags: {karpenter.sh/discovery: my-cluster}}]",
        "EC2NodeClass/default: spec.subnetSelectorTerms: it is missing: write for example [{tags: "
        "{karpenter.sh/discovery: my-cluster}}]",
    ]


def test_a_number_instead_of_a_duration_gets_an_example() -> None:
    assert refusals(pool(disruption={"consolidateAfter": 5})) == [
        "NodePool/default: spec.disruption.consolidateAfter is 5: write a duration such as 30s, 15m or 720h, or Never"
    ]


@pytest.mark.parametrize("moment", ["yesterday", 5, "2026-13-45T05:17:28Z"])
def test_an_invalid_time_in_a_status_is_ignored(moment: object) -> None:
    terms = [{"tags": {"karpenter.sh/discovery": "shop"}}]
    spec = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "r",
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
    }
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": moment}
    fields = {"metadata": {"name": "default"}, "spec": spec, "status": {"conditions": [ready]}}

    of_class, of_pod = refusals(
        {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", **fields}, {"kind": "Pod"}
    )

    assert of_class.startswith(f"EC2NodeClass/default: status.conditions[0].lastTransitionTime is {moment}: ")
    assert of_pod.startswith("file.json: apiVersion: it is missing")


def claim(kind: str, name: Any, **spec: Any) -> dict[str, Any]:
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    of_kind = {
        "NodeClaim": ("karpenter.sh/v1", {"nodeClassRef": ref}),
        "Machine": ("karpenter.sh/v1alpha5", {"machineTemplateRef": {"name": "default"}}),
    }
    version, refers = of_kind[kind]
    labels = {"karpenter.sh/provisioner-name": "p"} if kind == "Machine" else {}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {**refers, "requirements": [], **spec}}


def patterns_of(schema: Any) -> Iterator[str]:
    """Yield every pattern of a schema; a property may have this name, too."""
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        schema = list(schema.values())
    if isinstance(schema, list):
        for one in schema:
            yield from patterns_of(one)


def test_every_pattern_of_the_packaged_schemas_has_a_remedy_in_words() -> None:
    found = {pattern for schema in Schemas.packaged().types.values() for pattern in patterns_of(schema)}

    assert found == set(REMEDIES)


@pytest.mark.parametrize(
    ("manifest", "refusal"),
    [
        (
            node_class(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "12Qx"}}]),
            'ebs.volumeSize is 12Qx: give a size from 1Gi to 64Ti, such as "40Gi"',
        ),
        (
            node_class(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 50}}]),
            'ebs.volumeSize is 50: give a size from 1Gi to 64Ti, such as "40Gi"',
        ),
        (
            node_class(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 10**40}}]),
            f'ebs.volumeSize is {10**40}: the number is too large: give a size from 1Gi to 64Ti, such as "40Gi"',
        ),
        (
            node_class(subnetSelectorTerms=[{"id": "vpc-1"}]),
            'subnetSelectorTerms[0].id is vpc-1: give the id of a subnet, such as "subnet-0123456789abcdef0"',
        ),
        (
            pool(limits={"cpu": 10**40}),
            f"spec.limits[cpu] is {10**40}: the number is too large: write a Kubernetes quantity such as 500m, 2 or",
        ),
        (pool(limits={"cpu": -(10**40)}), f"spec.limits[cpu] is {-(10**40)}: the number is too small: write a Kub"),
        (
            pool(requirements=[{"key": "a/b", "operator": "In", "values": ["c", None]}]),
            "requirements[0].values[1] is null: it is empty: give a value here, or remove the item",
        ),
        (pool(sizee=3), "spec.sizee is 3: there is no such field; remove it"),
        (pool() | {"spec": None}, "spec: it is empty: give fields (key: value) here, with template"),
        (
            pool(requirements=[{"operator": "Exists"}]),
            "spec.template.spec.requirements[0].key: it is missing: give a text here",
        ),
        (
            pool(requirements=[{"key": "a/b"}]),
            "requirements[0].operator: it is missing: use one of In, NotIn, Exists, DoesNotExist",
        ),
        (
            pool(node={"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"}}),
            "spec.template.spec.nodeClassRef.name: it is missing: give a name here",
        ),
        (claim("NodeClaim", "a", nodeClassRef=None), "spec.nodeClassRef: it is empty: write for example {group:"),
        (
            {
                "apiVersion": "karpenter.sh/v1alpha5",
                "kind": "Provisioner",
                "metadata": {"name": "old"},
                "spec": {"provider": {"launchTemplate": "ab"}},
            },
            "spec.provider.launchTemplate is ab: use 3 to 128 characters: give the name of a launch template",
        ),
        (
            claim("NodeClaim", False),
            'metadata.name is false: put it in quotes: "false", or "n", "no" or "off" if that is the word here',
        ),
    ],
)
def test_a_schema_error_has_a_remedy_in_words(manifest: dict[str, Any], refusal: str) -> None:
    found = refusals(manifest)

    assert [one for one in found if refusal in one], found
    assert not [one for one in found if "^" in one]


def test_a_claim_with_two_mistakes_is_one_invalid_object() -> None:
    wrong = claim("NodeClaim", False, resources={"requests": {"cpu": -5}})

    found = read_objects(wrong).errors
    assert {one.object for one in found} == {"NodeClaim (file.json)"}
    assert [one.field for one in found] == ["metadata.name", "spec.resources.requests.cpu"]


@pytest.mark.parametrize("kind", ["NodeClaim", "Machine"])
def test_an_invalid_claim_is_left_out_of_the_plan_and_of_the_counts(kind: str) -> None:
    found = read_objects(claim(kind, "m", resources={"requests": {"cpu": -5}}), claim(kind, "good"))

    assert [(one.object, one.field) for one in found.errors] == [(f"{kind}/m", "spec.resources.requests.cpu")]
    assert [one.claim for one in found.snapshot.pools] == [f"{kind}/good"]
    assert found.counts == {kind: 1}


@pytest.mark.parametrize("size", [-5, "12Qx", 10**40])
def test_a_pool_of_an_invalid_class_is_valid_and_has_a_warning(size: Any) -> None:
    wrong = node_class(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": {"volumeSize": size}}])
    found = read_objects(wrong, pool())

    assert [one.object for one in found.errors] == ["EC2NodeClass/default"]
    warnings = [(one.object, one.severity, one.remedy) for one in found.problems if one.object == "NodePool/default"]
    assert warnings == [("NodePool/default", "warning", "this class is invalid; the plan has no nodes of it")]
    assert found.counts == {"NodePool": 1}


def test_empty_lists_that_the_api_server_accepts_are_valid() -> None:
    assert refusals(pool(requirements=[]), node_class(blockDeviceMappings=[])) == []


@pytest.mark.parametrize("policy", ["Alway", ""])
def test_a_container_whose_restart_policy_is_misspelt_is_no_sidecar_and_is_refused(policy: str) -> None:
    sidecar = {"name": "proxy", "image": "proxy", "restartPolicy": "Always"}
    misspelt = {**sidecar, "restartPolicy": policy}

    assert refusals(deployment("web", 1, initContainers=[sidecar])) == []
    (refusal,) = refusals(deployment("web", 1, initContainers=[sidecar, {**misspelt, "name": "other"}]))
    assert refusal.startswith("Deployment/shop/web: spec.template.spec.initContainers[1].restartPolicy is ")
    assert "use one of Always, OnFailure, Never" in refusal


def test_a_pod_of_an_unknown_operating_system_is_refused() -> None:
    assert refusals(pod("a", os={"name": "windows"})) == []
    assert refusals(pod("a", os={"name": "linx"})) == [
        'Pod/default/a: spec.os.name is linx: use linux or windows; did you mean "linux"?'
    ]


def test_an_item_without_a_value_is_an_empty_text_in_lists_of_built_in_kinds() -> None:
    """The API server refuses such an item in objects of CRDs, and stores it as an empty text in others."""
    selector = {"matchExpressions": [{"key": "team", "operator": "In", "values": [None, "a"]}]}
    one = pod(
        "a",
        affinity={
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
                ]
            }
        },
    )

    assert refusals(one) == []
