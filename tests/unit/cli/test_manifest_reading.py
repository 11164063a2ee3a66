"""Manifests are read with the API server's rules; invalid ones are refused with object, field and remedy."""

from pathlib import Path
from typing import Any

import pytest

from joiner_cli.manifests import read_documents, read_manifest_set
from joiner_cli.manifests.manifest_documents import ManifestDocument
from tests.unit.cli.command_runs import deployment, node_class, pod, pool
from tests.unit.cli.manifest_reading import GOOD, read_objects, refusals

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_valid_manifests_of_every_kind_have_no_problems() -> None:
    found = read_manifest_set(read_documents([str(GOOD)]))

    assert found.problems == ()
    assert len(found.snapshot.pools) == 3
    assert [pod.key for pod in found.snapshot.pods if pod.name.startswith("db")] == ["shop/db-0", "shop/db-1"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.name)
def test_our_examples_are_read(path: Path) -> None:
    assert read_manifest_set(read_documents([str(path)])).errors == ()


def test_pods_of_a_deployment_are_named_by_number() -> None:
    found = read_objects(deployment("web", 3))

    assert [one.key for one in found.snapshot.pods] == ["shop/web-0", "shop/web-1", "shop/web-2"]


def test_existing_pods_of_a_deployment_are_not_added_again() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f7c", "uid": "u", "controller": True}
    there = pod("web-5d8f7c-abcde", nodeName="node-1")
    there["metadata"] |= {"namespace": "shop", "labels": {"app": "web"}, "ownerReferences": [owner]}

    assert [one.name for one in read_objects(deployment("web", 3), there).snapshot.pods] == [
        "web-5d8f7c-abcde",
        "web-0",
        "web-1",
    ]


def test_a_stateful_set_has_stable_names_and_volume_claims() -> None:
    found = read_manifest_set(read_documents([str(GOOD / "shop.yaml")]))

    claims = [one["metadata"]["name"] for one in found.lists["persistentvolumeclaims"]]
    assert claims == ["files", "data-db-0", "data-db-1"]
    assert found.lists["persistentvolumeclaims"][1]["spec"]["storageClassName"] == "gp3"  # the default class


def test_a_volume_that_a_stateful_set_has_twice_is_refused_and_one_that_a_claim_template_replaces_is_not() -> None:
    documents = read_documents([str(GOOD / "shop.yaml")])
    manifests = [each.manifest for each in documents if isinstance(each, ManifestDocument)]
    (stateful,) = (each for each in manifests if each["kind"] == "StatefulSet")
    volumes = stateful["spec"]["template"]["spec"]["volumes"]
    assert "data" in {each["name"] for each in volumes}
    assert refusals(stateful) == []

    volumes.append({"name": "scratch", "emptyDir": {}})

    assert refusals(stateful) == [
        "StatefulSet/shop/db: spec.template.spec.volumes[2].name is scratch: another volume of the pod has this name"
    ]


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
    assert [one.name for one in read_objects(job).snapshot.pods] == ["sum-0", "sum-1"]

    job["spec"]["suspend"] = True  # type: ignore[index]  # the spec is a dict
    assert read_objects(job).snapshot.pods == ()


def test_a_pod_gets_the_limits_of_its_namespace() -> None:
    limits = [{"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"cpu": "250m"}}]
    limit_range = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": limits}}
    bare = {**pod("a"), "spec": {"containers": [{"name": "main", "image": "app"}]}}

    assert read_objects(limit_range, bare).snapshot.pods[0].requests.to_kube() == {
        "memory": "1Gi",
        "cpu": "250m",
        "pods": "1",
    }


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"replicaz": 3}, 'spec.replicaz is 3: there is no such field; did you mean "replicas"?'),
        ({"replicas": "3"}, "spec.replicas is 3: give a whole number here"),
        ({"replicas": -1}, "spec.replicas is -1: give a number of at least zero"),
        ({"replicas": 2**40}, "spec.replicas is 1099511627776: give a number of at most 2147483647"),
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


@pytest.mark.parametrize("cost", ["abc", "", "+1", "008", "1.5", "-2147483649", "2147483648"])
def test_a_deletion_cost_that_the_api_server_refuses_is_refused(cost: str) -> None:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": cost}
    one, many = pod("a"), deployment("web", 1)
    one["metadata"] |= {"annotations": annotations}
    many["spec"]["template"]["metadata"] |= {"annotations": annotations}

    shown = cost or '""'
    wrong = f'controller.kubernetes.io/pod-deletion-cost] is {shown}: give a whole number of 32 bits, such as "-10"'
    assert refusals(one) == [f"Pod/default/a: metadata.annotations[{wrong}"]
    assert refusals(many) == [f"Deployment/shop/web: spec.template.metadata.annotations[{wrong}"]


@pytest.mark.parametrize("cost", ["0", "-08", "-2147483648", "2147483647"])
def test_a_deletion_cost_of_32_bits_is_read(cost: str) -> None:
    one = pod("a")
    one["metadata"] |= {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}

    assert read_objects(one).snapshot.pods[0].deletion_cost == int(cost)


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
    found = read_objects(manifest)

    assert found.errors == ()
    assert [one.severity for one in found.problems] == ["warning"]
    assert len(found.snapshot.pods) == 1


def test_other_kinds_are_ignored_and_misspelled_kinds_are_not() -> None:
    found = read_objects(
        {"apiVersion": "v1", "kind": "ConfigMap"}, {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    )
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


def test_more_pods_than_a_cluster_can_have_are_refused() -> None:
    assert refusals(deployment("web", 2_000_000_000)) == [
        "Deployment/shop/web: spec.replicas is 2000000000: with it there are more than 200,000 pods; reduce the number"
    ]
    assert [one.key for one in read_objects(deployment("web", 2_000_000_000), deployment("api", 1)).snapshot.pods] == [
        "shop/api-0"
    ]


def test_a_missing_class_with_a_similar_name_closes_the_pool() -> None:
    similar = {**node_class({}), "metadata": {"name": "defalt"}}

    found = read_objects(pool(), similar)

    assert [(one.severity, one.object, one.remedy) for one in found.problems] == [
        ("error", "NodePool/default", 'there is no such class among the manifests; did you mean "defalt"?')
    ]
    assert list(found.snapshot.closed_pools) == ["NodePool/default"]
    assert [one.severity for one in read_objects(pool()).problems] == ["info"]


def test_an_invalid_class_is_not_reported_as_missing() -> None:
    good = node_class({})
    misspelt = {**good, "spec": {"rolle" if name == "role" else name: value for name, value in good["spec"].items()}}
    first = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "first"},
        "value": "high",
    }
    found = read_objects(pool(), misspelt, first, pod("a", priorityClassName="first"))

    assert [one.object for one in found.errors if "rolle" in one.field or one.field == "value"] == [
        "EC2NodeClass/default",
        "PriorityClass/first",
    ]
    assert [str(one) for one in found.problems if one.severity != "error"] == [
        "Pod/default/a: spec.priorityClassName is first: this PriorityClass is invalid; the plan counts it as 0",
        "NodePool/default: spec.template.spec.nodeClassRef is EC2NodeClass/default: this class is invalid; "
        "the plan has no nodes of it",
    ]


@pytest.mark.parametrize(("address", "family"), [("2600:1f18:1::7", "ipv6"), ("10.0.1.7", "ipv4")])
def test_classes_of_a_dump_have_the_address_family_of_its_nodes(address: str, family: str) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-1"}}
    node["status"] = {"addresses": [{"type": "InternalIP", "address": address}]}
    declared = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"a": "b"}}],
            "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
        },
    }

    assert [one.ip_family for one in read_objects(node, declared).snapshot.classes] == [family]
