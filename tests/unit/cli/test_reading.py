"""Manifests are read with the API server's rules; invalid ones are refused with object, field and remedy."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from joiner_cli.manifests import ManifestSet, read_documents, read_manifest_set
from joiner_cli.manifests.manifest_documents import read_text
from tests.unit.cli.running import deployment, pod, pool

GOOD = Path(__file__).parent / "manifests"
EXAMPLES = Path(__file__).parents[3] / "examples"


def world(*manifests: Any) -> ManifestSet:
    return read_manifest_set(one for manifest in manifests for one in read_text(json.dumps(manifest), "file.json"))


def refusals(*manifests: Any) -> list[str]:
    return [str(problem) for problem in world(*manifests).errors]


def of_yaml(text: str) -> ManifestSet:
    return read_manifest_set(read_text(text, "file.yaml"))


def test_valid_manifests_of_every_kind_have_no_problems() -> None:
    found = read_manifest_set(read_documents([str(GOOD)]))

    assert found.problems == ()
    assert len(found.snapshot.pools) == 3
    assert [pod.key for pod in found.snapshot.pods if pod.name.startswith("db")] == ["shop/db-0", "shop/db-1"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.name)
def test_our_examples_are_read(path: Path) -> None:
    assert read_manifest_set(read_documents([str(path)])).errors == ()


def test_pods_of_a_deployment_are_named_by_number() -> None:
    found = world(deployment("web", 3))

    assert [one.key for one in found.snapshot.pods] == ["shop/web-0", "shop/web-1", "shop/web-2"]


def test_existing_pods_of_a_deployment_are_not_added_again() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f7c", "uid": "u", "controller": True}
    there = pod("web-5d8f7c-abcde", nodeName="node-1")
    there["metadata"] |= {"namespace": "shop", "labels": {"app": "web"}, "ownerReferences": [owner]}

    assert [one.name for one in world(deployment("web", 3), there).snapshot.pods] == [
        "web-5d8f7c-abcde",
        "web-0",
        "web-1",
    ]


def test_a_stateful_set_has_stable_names_and_volume_claims() -> None:
    found = read_manifest_set(read_documents([str(GOOD / "shop.yaml")]))

    claims = [one["metadata"]["name"] for one in found.lists["persistentvolumeclaims"]]
    assert claims == ["files", "data-db-0", "data-db-1"]
    assert found.lists["persistentvolumeclaims"][1]["spec"]["storageClassName"] == "gp3"  # the default class


def test_a_job_has_as_many_pods_as_its_parallelism_and_a_suspended_one_none() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sum"},
        "spec": {
            "parallelism": 5,
            "completions": 2,
            "template": {"spec": {**pod("")["spec"], "restartPolicy": "Never"}},
        },
    }
    assert [one.name for one in world(job).snapshot.pods] == ["sum-0", "sum-1"]

    job["spec"]["suspend"] = True  # type: ignore[index]  # the spec is a dict
    assert world(job).snapshot.pods == ()


def test_a_pod_gets_the_limits_of_its_namespace() -> None:
    limits = [{"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"cpu": "250m"}}]
    limit_range = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": limits}}
    bare = {**pod("a"), "spec": {"containers": [{"name": "main", "image": "app"}]}}

    assert world(limit_range, bare).snapshot.pods[0].requests.to_kube() == {"memory": "1Gi", "cpu": "250m", "pods": "1"}


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"replicaz": 3}, 'spec.replicaz is 3: there is no such field; did you mean "replicas"?'),
        ({"replicas": "3"}, "spec.replicas is 3: give a whole number here"),
        ({"replicas": -1}, "spec.replicas is -1: give a number of at least zero"),
        ({"replicas": 2**40}, "spec.replicas is 1099511627776: give a number from -2147483648 to 2147483647"),
        (
            {"selector": {"matchLabels": {"app": "other"}}},
            "spec.template.metadata.labels is {app: web}: the selector must select",
        ),
        ({"selector": {"matchLabels": {"app": 5}}}, 'spec.selector.matchLabels[app] is 5: put it in quotes: "5"'),
        ({"template": None}, "spec.template: it is empty"),
    ],
)
def test_what_the_api_server_refuses_is_refused(change: dict[str, Any], refusal: str) -> None:
    manifest = deployment("web", 1)
    manifest["spec"] |= change

    found = refusals(manifest)
    assert found[0].startswith("Deployment/shop/web: ")
    assert refusal in found[0]


@pytest.mark.parametrize(
    ("spec", "refusal"),
    [
        ({"containers": []}, "Pod/default/a: spec.containers is []: a pod needs at least one container"),
        ({"nodeSelector": {"zone": "a b"}}, "Pod/default/a: spec.nodeSelector[zone] is a b: a label value has"),
        (
            {"tolerations": [{"operator": "Sometimes"}]},
            "spec.tolerations[0].operator is Sometimes: use one of Equal, Exists, Gt, Lt",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "spec.tolerations[0].value is b: the operator",
        ),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            "spec.topologySpreadConstraints[0].maxSkew is 0: give a number of at least 1",
        ),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "doNotSchedule"}
                ]
            },
            'did you mean "DoNotSchedule"?',
        ),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}}]}}},
            "requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: it is missing",
        ),
        ({"nodeName": "Node 1"}, "spec.nodeName is Node 1: use up to 253 lowercase letters"),
    ],
)
def test_a_pod_is_checked_where_a_plan_depends_on_it(spec: dict[str, Any], refusal: str) -> None:
    manifest = pod("a")
    manifest["spec"] |= spec

    assert any(refusal in one for one in refusals(manifest)), refusals(manifest)


def test_an_invalid_quantity_has_a_remedy() -> None:
    assert refusals(pod("a", cpu="half")) == [
        "Pod/default/a: spec.containers[0].resources.requests[cpu] is half: write a Kubernetes quantity such as 500m, "
        "2 or 4Gi"
    ]


def test_a_missing_image_is_a_warning() -> None:
    manifest = pod("a")
    del manifest["spec"]["containers"][0]["image"]
    found = world(manifest)

    assert found.errors == ()
    assert [one.severity for one in found.problems] == ["warning"]
    assert len(found.snapshot.pods) == 1


def test_other_kinds_are_ignored_and_misspelled_kinds_are_not() -> None:
    found = world({"apiVersion": "v1", "kind": "ConfigMap"}, {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"})
    assert (found.errors, found.passed_over) == ((), {"ConfigMap": 1, "Rollout": 1})

    assert refusals({"apiVersion": "apps/v1", "kind": "Deploymnt", "metadata": {"name": "web"}}) == [
        'Deploymnt/web: kind is Deploymnt: apps/v1 has no such kind; did you mean "Deployment"?'
    ]
    assert refusals({**deployment("web", 1), "apiVersion": "extensions/v1beta1"}) == [
        "Deployment/web: apiVersion is extensions/v1beta1: use apps/v1"
    ]
    assert refusals({**pool(), "apiVersion": "karpenter.sh/v1beta1"}) == [
        "NodePool/default: apiVersion is karpenter.sh/v1beta1: use karpenter.sh/v1"
    ]


def test_all_mistakes_are_reported_together() -> None:
    manifest = deployment("web", -1)
    manifest["spec"]["template"]["spec"]["tolerations"] = [{"key": "a b"}]

    assert (
        len(
            refusals(
                manifest,
                pod("B"),
                pool(requirements=[{"key": "karpenter.sh/capacity-type", "operator": "in", "values": ["spot"]}]),
            )
        )
        == 4
    )


def test_a_pod_with_less_than_its_containers_request_is_refused_in_every_kind() -> None:
    little: dict[str, Any] = {"resources": {"requests": {"cpu": "1"}}}
    remedy = "is 1: give the whole pod at least what its containers request together, which is 2"
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits", "namespace": "shop"}}
    limits["spec"] = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}}]}
    filled = deployment("filled", 1, **little)
    del filled["spec"]["template"]["spec"]["containers"][0]["resources"]

    assert refusals(pod("a", cpu="2", **little), deployment("web", 0, cpu="2", **little)) == [
        f"Pod/default/a: spec.resources.requests[cpu] {remedy}",
        f"Deployment/shop/web: spec.template.spec.resources.requests[cpu] {remedy}",
    ]
    assert len(refusals(pod("a", cpu="two", **little))) == 1
    assert refusals(limits, filled) == [f"Deployment/shop/filled: spec.template.spec.resources.requests[cpu] {remedy}"]


def test_the_same_object_twice_is_read_once_and_two_different_ones_are_refused() -> None:
    assert len(world(pod("a"), pod("a")).snapshot.pods) == 1
    assert "another document defines it differently (file.json)" in refusals(pod("a"), pod("a", cpu="2"))[0]


def test_more_pods_than_a_cluster_can_have_are_refused() -> None:
    assert refusals(deployment("web", 2_000_000_000)) == [
        "Deployment/shop/web: spec.replicas is 2000000000: with it there are more than 200,000 pods; reduce the number"
    ]
    assert [one.key for one in world(deployment("web", 2_000_000_000), deployment("api", 1)).snapshot.pods] == [
        "shop/api-0"
    ]


def test_yaml_is_read_as_kubectl_reads_it() -> None:
    text = yaml.safe_dump(pod("a", nodeSelector={"tier": "x"})).replace("tier: x", "tier: on")
    assert [str(one) for one in of_yaml(text).errors] == [
        'Pod/default/a: spec.nodeSelector[tier] is true: put it in quotes: "true"'
    ]

    text = text.replace("tier: on", "tier: 12:30")
    assert "a label value has up to 63" in str(of_yaml(text).errors[0])  # a text, and not 750 seconds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "file.yaml, line 2: did not find expected node content"),
        ("a: 1\na: 2\n", "file.yaml, line 1: the key 'a' is duplicated in one mapping"),
        ("a: &a [*a]\n", "found unconstructable recursive node"),
        (
            "\n".join(["a0: &a0 [1]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]),
            "its aliases (*) expand to more than",
        ),
        ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("[" * 100_000, "nested too deeply"),
        ("name: {{ .Release.Name }}\n", "it looks like a template: render it first, with `helm template` or the like"),
    ],
    ids=["torn", "twice", "cycle", "bomb", "python", "deep", "template"],
)
def test_invalid_yaml_is_reported_with_its_line(text: str, problem: str) -> None:
    found = of_yaml(text)

    assert [one for one in found.errors if problem in str(one)]
    assert len(found.unreadable) == 1


def test_documents_before_a_syntax_error_are_read_and_both_are_reported() -> None:
    found = of_yaml(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: B}\nspec: {containers: [{name: a, image: b}]}\n---\na: [\n"
    )

    assert [str(one) for one in found.errors] == [
        "Pod/default/B: metadata.name is B: use up to 253 lowercase letters, digits, - and ., each part beginning and "
        "ending with a letter "
        "or digit",
        "file.yaml, line 7: did not find expected node content: write valid YAML or JSON",
    ]


def test_every_file_is_read_and_every_unreadable_one_reported(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.json").write_bytes(b"\xff")
    (tmp_path / "c.yaml").write_text(json.dumps(pod("C")))
    found = read_manifest_set(read_documents([str(tmp_path), str(tmp_path / "nowhere.yaml"), str(GOOD)]))

    assert [str(one).removeprefix(f"{tmp_path}/").partition(":")[0] for one in found.errors] == [
        "a.yaml, line 2",
        "b.json",
        "Pod/default/C",
        "nowhere.yaml",
    ]
    assert len(found.unreadable) == 3


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
    reported = [one.field for one in world(manifest).errors]

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

    reported = [f"{one.object} {one.field}" for one in world(*values).errors]

    assert reported == [
        f"Pod/default/a spec.{place}",
        f"Deployment/shop/web spec.template.spec.{place}",
        "NodePool/default spec.template.spec.requirements[0].values",
    ]
    assert sorted(f"{one.object} {one.field}" for one in world(shape, *values).errors) == sorted(
        [*reported, "Pod/default/b spec.contaners"]
    )


def test_values_and_schema_errors_of_a_pool_are_reported_together() -> None:
    wrong = pool(
        requirements=[{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spots"]}],
        wieght=5,
        limits={"cpu": "x"},
    )

    assert [one.field for one in world(wrong).errors] == [
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


def test_a_missing_class_with_a_similar_name_is_a_warning() -> None:
    tags = [{"tags": {"a": "b"}}]
    spec = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "r",
        "subnetSelectorTerms": tags,
        "securityGroupSelectorTerms": tags,
    }
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "defalt"},
        "spec": spec,
    }

    assert [(one.severity, one.remedy.partition("; ")[2]) for one in world(pool(), node_class).problems] == [
        ("warning", 'AL2023 with its defaults is assumed, in every zone; did you mean "EC2NodeClass/defalt"?')
    ]
    assert [one.severity for one in world(pool()).problems] == ["info"]


def test_an_invalid_class_is_not_reported_as_missing() -> None:
    tags = [{"tags": {"a": "b"}}]
    spec = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "rolle": "r",
        "subnetSelectorTerms": tags,
        "securityGroupSelectorTerms": tags,
    }
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": spec,
    }
    first = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "first"},
        "value": "high",
    }
    found = world(pool(), node_class, first, pod("a", priorityClassName="first"))

    assert [one.object for one in found.errors if "rolle" in one.field or one.field == "value"] == [
        "EC2NodeClass/default",
        "PriorityClass/first",
    ]
    assert [str(one) for one in found.problems if one.severity != "error"] == [
        "Pod/default/a: spec.priorityClassName is first: this PriorityClass is invalid; the plan counts it as 0",
        "NodePool/default: spec.template.spec.nodeClassRef is EC2NodeClass/default: this class is invalid; "
        "the plan has no nodes of it",
    ]


def test_a_number_instead_of_a_duration_gets_an_example() -> None:
    assert refusals(pool(disruption={"consolidateAfter": 5})) == [
        "NodePool/default: spec.disruption.consolidateAfter is 5: write a duration such as 30s, 15m or 720h, or Never"
    ]


def test_an_unknown_kind_is_reported_with_its_file() -> None:
    assert world({"apiVersion": "v1", "kind": "pod", "metadata": {"name": "a"}}).where == {"pod/a": "file.json"}


def test_a_document_that_is_not_an_object_is_reported_with_its_place() -> None:
    assert [str(one) for one in of_yaml("- a\n").errors] == [
        "file.yaml: it is [a]: write an object here, with apiVersion, kind, metadata and spec"
    ]
    assert [str(one) for one in of_yaml("").errors] == []
    assert [str(one) for one in of_yaml("[{kind: Pod}, {kind: Pod}]").errors] == [
        "file.yaml: it is [{kind: Pod}, {kind: Pod}]: write it as {apiVersion: v1, kind: List, items: [...]}, "
        "or write each object as a separate document, with --- between them"
    ]
    assert [str(one) for one in of_yaml("kind: Pod\n").errors] == [
        "file.yaml: apiVersion: it is missing: set the kind of the object, or remove this document"
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
