"""Names in pods that no node has are reported with what was probably meant."""

from pathlib import Path
from typing import Any

import pytest

from joiner.pools import InvalidManifest
from joiner_cli.manifests.manifest_documents import ManifestDocument, read_text
from joiner_cli.manifests.written_values import WrittenValues
from joiner_cli.manifests.yaml_text import compose_documents
from tests.unit.cli.command_runs import deployment, joiner, node_class, pod, pool, write
from tests.unit.cli.small_catalogue import written

ZONE, REQUIRED = "topology.kubernetes.io/zone", "requiredDuringSchedulingIgnoredDuringExecution"

UPPER_CASE = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["us-east-1A"]}]}


def warnings(folder: Path, catalogue: Path, **spec: Any) -> list[str]:
    """Return the warnings about a pod with this spec, without the name of its file."""
    team = pool(requirements=[{"key": "team", "operator": "Exists"}])
    answer = joiner("plan", "-f", write(folder, team, pod("a", **spec)), "--catalogue", catalogue)
    lines = (line for line in answer.err.splitlines() if line.startswith("joiner: warning: "))
    return [line.partition("Pod/default/a: ")[2] for line in lines]


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        (
            {"nodeSelector": {f"{ZONE}s": "us-east-1a"}},
            f'spec.nodeSelector[{ZONE}s] is us-east-1a: no node of the plan has this label; did you mean "{ZONE}"?',
        ),
        (
            {"nodeSelector": {"teem": "red"}},
            'spec.nodeSelector[teem] is red: no node of the plan has this label; did you mean "team"?',
        ),
        (
            {"nodeSelector": {ZONE: "us-east-1z"}},
            f"spec.nodeSelector[{ZONE}] is us-east-1z: the catalogue has no such zone; "
            "there are us-east-1a, us-east-1b, us-east-1c, us-east-1d, us-east-1f",
        ),
        (
            {"nodeSelector": {"failure-domain.beta.kubernetes.io/zone": "us-esat-1a"}},
            "spec.nodeSelector[failure-domain.beta.kubernetes.io/zone] is us-esat-1a: the catalogue has no such zone; "
            "did you mean us-east-1a?",
        ),
        (
            {"nodeSelector": {ZONE: "us-west-2a"}},
            f"spec.nodeSelector[{ZONE}] is us-west-2a: the catalogue has no such zone; "
            "there are us-east-1a, us-east-1b, us-east-1c, us-east-1d, us-east-1f",
        ),
        (
            {"nodeSelector": {ZONE: "us-east-1-bos-1a"}},
            f"spec.nodeSelector[{ZONE}] is us-east-1-bos-1a: the catalogue has no such zone; "
            "there are us-east-1a, us-east-1b, us-east-1c, us-east-1d, us-east-1f",
        ),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [UPPER_CASE]}}}},
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0][{ZONE}] is us-east-1A: "
            "the catalogue has no such zone; did you mean us-east-1a?",
        ),
        (
            {
                "affinity": {
                    "podAntiAffinity": {REQUIRED: [{"topologyKey": "kubernetes.io/hostnme", "labelSelector": {}}]}
                }
            },
            f"spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey is kubernetes.io/hostnme: no node of the plan "
            'has this label, so that there are no domains; did you mean "kubernetes.io/hostname"?',
        ),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
                ]
            },
            "spec.topologySpreadConstraints[0].topologyKey is rack: no node of the plan has this label, so that there "
            "are no domains",
        ),
    ],
)
def test_a_label_that_no_node_has_is_reported(
    spec: dict[str, Any], warning: str, tmp_path: Path, catalogue: Path
) -> None:
    assert warnings(tmp_path, catalogue, **spec) == [warning]


@pytest.mark.parametrize("key", [ZONE, "failure-domain.beta.kubernetes.io/zone"])
def test_labels_that_nodes_have_are_not_reported(key: str, tmp_path: Path, catalogue: Path) -> None:
    spread = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}

    assert warnings(tmp_path, catalogue, nodeSelector={key: "us-east-1a"}, topologySpreadConstraints=[spread]) == []


def test_a_misspelt_resource_of_a_workload_is_reported_once(tmp_path: Path, catalogue: Path) -> None:
    web = deployment("web", 3)
    web["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpus": "1", "memory": "1Gi"}
    answer = joiner("plan", "-f", write(tmp_path, pool(), web), "--catalogue", catalogue)

    assert answer.err.count("did you mean nvidia.com/gpu?") == 1
    assert (
        "Deployment/shop/web: spec.template.spec.containers[0].resources.limits[nvidia.com/gpus] is 1: no instance "
        "type of the catalogue has this resource; did you mean nvidia.com/gpu?"
    ) in answer.err


@pytest.mark.parametrize("side", ["nodes", "pools"])
def test_a_zone_that_a_node_or_a_pool_has_is_known(side: str, tmp_path: Path, catalogue: Path) -> None:
    local = "us-east-1-bos-1a"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-1", "labels": {ZONE: local}}}
    own = pool("local", requirements=[{"key": ZONE, "operator": "In", "values": [local]}])
    waiting = pod("a", nodeSelector={"failure-domain.beta.kubernetes.io/zone": local})
    files = write(tmp_path, pool(), node if side == "nodes" else own, waiting)
    answer = joiner("plan", "-f", files, "--catalogue", catalogue)

    assert f"spec.nodeSelector[failure-domain.beta.kubernetes.io/zone] is {local}" not in answer.err


def test_network_adapters_that_a_launch_adds_are_known_resources(tmp_path: Path) -> None:
    """No instance type of a catalogue has EFA: a node has it if its pods request it."""
    fast = pod("a")
    fast["spec"]["containers"][0]["resources"]["limits"] = {"vpc.amazonaws.com/efa": "1"}
    files = write(tmp_path, pool(limits={"vpc.amazonaws.com/efa": "8"}), fast)
    answer = joiner("plan", "-f", files, "--catalogue", written(tmp_path, "c5n.9xlarge"), "-o", "json")

    assert [one["pods"] for one in answer.json["nodes"]] == [["default/a"]]
    assert [one["field"] for one in answer.json["problems"] if "efa" in one["field"]] == []


def test_memory_in_thousandths_of_a_byte_is_reported_if_it_is_little(tmp_path: Path, catalogue: Path) -> None:
    assert warnings(tmp_path, catalogue, memory="512m") == [
        "spec.containers[0].resources.requests[memory] is 512m: m means thousandths of a byte; did you mean 512Mi?"
    ]
    # The VerticalPodAutoscaler writes such quantities.
    assert warnings(tmp_path, catalogue, memory="128974848000m") == []


def test_a_pool_with_a_misspelt_class_has_no_nodes_and_the_others_are_planned(tmp_path: Path, catalogue: Path) -> None:
    wrong = pool("wrong")
    wrong["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "defualt"
    wrong["spec"]["weight"] = 50
    answer = joiner("plan", "-f", write(tmp_path, wrong, pool(), node_class({}), pod("a")), "--catalogue", catalogue)

    assert answer.exit_code == 1
    assert (
        "NodePool/wrong: spec.template.spec.nodeClassRef is EC2NodeClass/defualt: there is no such class among the "
        'manifests; did you mean "default"?'
    ) in answer.err
    assert "1 new node for 1 pod." in answer.out
    assert "wrong" not in answer.out


@pytest.mark.parametrize(("missing", "present"), [("gpu", "cpu"), ("default", "default-gpu"), ("web-1", "web-2")])
def test_a_class_with_a_name_that_is_only_similar_is_assumed(
    missing: str, present: str, tmp_path: Path, catalogue: Path
) -> None:
    of_missing = pool()
    of_missing["spec"]["template"]["spec"]["nodeClassRef"]["name"] = missing
    other = {**node_class({}), "metadata": {"name": present}}
    answer = joiner("plan", "-f", write(tmp_path, of_missing, other, pod("a")), "--catalogue", catalogue)

    assert answer.exit_code == 0
    assert "1 new node for 1 pod." in answer.out


@pytest.mark.parametrize(
    "broken",
    [
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default\n",
        "kind: EC2NodeClass # ours\nmetadata:\n  name: 'default' # ours\nspec: {\n",
        '{\n  "kind": "EC2NodeClass",\n  "metadata": {"name": "default"},\n  "spec": {\n',
    ],
)
def test_a_pool_whose_class_is_in_an_unreadable_document_has_no_nodes(
    broken: str, tmp_path: Path, catalogue: Path
) -> None:
    answer = joiner("plan", "-f", write(tmp_path, pool(), pod("a"), broken), "--catalogue", catalogue)

    assert answer.exit_code == 1
    assert (
        "joiner: warning: " in answer.err
        and "a document that cannot be read seems to define this class; the plan has no nodes of it" in answer.err
    )
    assert "1 pod pending." in answer.out


@pytest.mark.parametrize(
    "broken",
    [
        "apiVersion: v1\nkind: Pod\nmetadata: {name: default\n",
        "kind: EC2NodeClass\nmetadata: {name: default-gpu\n",
        "kind: EC2NodeClass\nmetadata:\n  name: gpu\n  labels: {app.kubernetes.io/name: default\n",
        "# The default class: EC2NodeClass\nkind: ConfigMap\nmetadata: {name: default\n",
    ],
)
def test_an_unreadable_document_with_another_object_closes_no_pool(
    broken: str, tmp_path: Path, catalogue: Path
) -> None:
    answer = joiner("plan", "-f", write(tmp_path, pool(), pod("a"), broken), "--catalogue", catalogue)

    assert answer.exit_code == 1
    assert "1 new node for 1 pod." in answer.out


@pytest.mark.parametrize("word", ["n", "off", "yes", "1_000", "1.10"])
def test_a_value_is_quoted_as_it_is_written(word: str, tmp_path: Path, catalogue: Path) -> None:
    listed = f"apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: Pod, metadata: {{name: {word}}}}}\n"
    answer = joiner("plan", "-f", write(tmp_path, pool(), listed), "--catalogue", catalogue)

    assert f'metadata.name is {word}: put it in quotes: "{word}"; without quotes, it means ' in answer.err


def test_a_file_is_composed_once_for_the_values_of_all_its_problems() -> None:
    text = "\n---\n".join(f"metadata: {{labels: {{a: 1.10, b: {number}.20}}}}" for number in range(5))
    composed: list[str] = []

    def compose(given: str) -> list[Any]:
        composed.append(given)
        return compose_documents(given)

    found = WrittenValues(compose)
    quoted = [
        found.quote(InvalidManifest("Pod/a", f"metadata.labels.{name}", value, "wrong"), document).value
        for document in read_text(text, "all.yaml")
        if isinstance(document, ManifestDocument)
        for name, value in (("a", "1.1"), ("b", "0.2"))
    ]

    assert quoted == ["1.10", "0.20", "1.10", "1.20", "1.10", "2.20", "1.10", "3.20", "1.10", "4.20"]
    assert composed == [text]


def test_a_pod_for_spot_instances_has_no_misspelt_value(tmp_path: Path, catalogue: Path) -> None:
    """The catalogue has no spot prices, which is reported once."""
    assert warnings(tmp_path, catalogue, nodeSelector={"karpenter.sh/capacity-type": "spot"}) == []
    assert warnings(tmp_path, catalogue, nodeSelector={"karpenter.sh/capacity-type": "sopt"}) == [
        "spec.nodeSelector[karpenter.sh/capacity-type] is sopt: the catalogue has no such capacity type; did you mean "
        "spot?"
    ]


def test_what_missing_spot_prices_mean_is_said_once(tmp_path: Path, catalogue: Path) -> None:
    spot = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]
    pools = [pool(name, requirements=spot) for name in ("web", "api")]
    answer = joiner("plan", "-f", write(tmp_path, *pools, pod("a")), "--catalogue", catalogue)

    assert (answer.out + answer.err).count("on-demand nodes only") == 1
    why = "it allows Spot Instances only, and the catalogue has no spot prices (--catalogue)"
    assert [line.split(maxsplit=2)[2].split() for line in answer.out.splitlines() if why in line] == [
        ["api,", "web", *why.split()]
    ]
    assert "read 2 NodePools, 1 Pod in" in answer.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "xml"), "Invalid value for '--output' / '-o': 'xml' is not one of 'table', 'json', 'yaml', 'html'."),
        (("--deadline", "soon"), "Invalid value for '--deadline': give a number"),
        (("--deadline", "-1"), "Invalid value for '--deadline': give a number of at least 0.01"),
    ],
)
def test_a_wrong_option_is_described_in_plain_words(options: tuple[str, str], message: str, tmp_path: Path) -> None:
    answer = joiner("plan", "-f", write(tmp_path, pod("a")), *options)

    assert answer.exit_code == 1
    assert message in answer.err
