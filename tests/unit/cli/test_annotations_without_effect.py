"""`joiner plan` reports annotations of pods and workloads that have no effect."""

from pathlib import Path

from tests.unit.cli.command_runs import deployment, joiner, node_class, pod, pool, write
from tests.unit.cli.test_cost import node

ANNOTATIONS = {"joiner.dev/drain": "rolout", "karpenter.sh/do-not-disrupt": "yes", "joiner.dev/placing": "bind"}
OF_A_POD = (
    '[joiner.dev/drain] is rolout: it has no effect; use rollout; did you mean "rollout"?',
    "[joiner.dev/placing] is bind: it has no effect here: it is an annotation of a pool or the template of a pool",
    '[karpenter.sh/do-not-disrupt] is yes: it has no effect; write "true", or a duration from the start of the pod '
    'such as "1h30m"',
)


def test_annotations_of_pods_and_pod_templates_without_effect_are_reported(tmp_path: Path, catalogue: Path) -> None:
    alone = pod("alone")
    alone["metadata"]["annotations"] = ANNOTATIONS
    web = deployment("web", 1)
    web["spec"]["template"]["metadata"]["annotations"] = ANNOTATIONS

    answer = joiner("plan", "-f", write(tmp_path, pool(), node_class(), alone, web), "--catalogue", catalogue)

    assert answer.exit_code == 0
    for why in OF_A_POD:
        assert f"Pod/default/alone: metadata.annotations{why}" in answer.err
        assert f"Deployment/shop/web: spec.template.metadata.annotations{why}" in answer.err


def test_an_annotation_of_pods_on_their_workload_is_reported(tmp_path: Path, catalogue: Path) -> None:
    web = deployment("web", 1)
    web["metadata"] |= {
        "annotations": {"joiner.dev/drain": "rollout", "karpenter.sh/do-not-disrupt": "true", "team": "a"},
        "labels": {"joiner.dev/drain": "rollout"},
    }

    answer = joiner("plan", "-f", write(tmp_path, pool(), node_class(), web), "--catalogue", catalogue, "-o", "json")

    assert [
        (one["field"], one["message"]) for one in answer.json["problems"] if one["object"] == "Deployment/shop/web"
    ] == [
        ("metadata.annotations[joiner.dev/drain]", "it has no effect here: it is an annotation of a pod"),
        (
            "metadata.annotations[karpenter.sh/do-not-disrupt]",
            "it has no effect on a workload: write it in the annotations of its pod template",
        ),
        ("metadata.labels[joiner.dev/drain]", "it has no effect as a label: write it as an annotation"),
    ]


def test_pods_with_the_same_mistake_share_a_line(tmp_path: Path, catalogue: Path) -> None:
    pods = [pod(f"web-{number}") for number in range(4)]
    for one in pods:
        one["metadata"]["annotations"] = {"joiner.dev/drain": "rolout"}
    pods[3]["metadata"]["annotations"] = {"joiner.dev/drain": "never"}
    manifests = write(tmp_path, pool(), node_class(), *pods)

    lines = [
        one for one in joiner("plan", "-f", manifests, "--catalogue", catalogue).err.splitlines() if "drain" in one
    ]
    problems = joiner("plan", "-f", manifests, "--catalogue", catalogue, "-o", "json").json["problems"]

    first, other = lines
    assert "Pod/default/web-0: metadata.annotations[joiner.dev/drain] is rolout" in first
    assert first.endswith("(and 2 other Pods with the same)")
    assert "Pod/default/web-3: metadata.annotations[joiner.dev/drain] is never" in other and "other" not in other
    assert len([one for one in problems if "drain" in one["field"]]) == 4


def test_annotations_of_nodes_without_effect_are_reported_and_alike_ones_share_a_line(
    tmp_path: Path, catalogue: Path
) -> None:
    nodes = [node("a", "m5.large", "default"), node("b", "m5.large", "default"), node("c", "m5.large")]
    for one in nodes:
        one["metadata"]["annotations"] = {"karpenter.sh/do-not-consolidate": "yes"}
    nodes[1]["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = "maybe"
    manifests = write(tmp_path, pool(), node_class(), *nodes)

    answer = joiner("plan", "-f", manifests, "--catalogue", catalogue)
    problems = joiner("plan", "-f", manifests, "--catalogue", catalogue, "-o", "json").json["problems"]

    begin = "joiner: warning: "
    lines = [one.removeprefix(begin) for one in answer.err.splitlines() if one.startswith(begin) and "Node/" in one]
    fault = 'it has no effect; write "true"'
    assert [one.partition("Node/")[2] for one in lines] == [
        f"a: metadata.annotations[karpenter.sh/do-not-consolidate] is yes: {fault} (and 1 other Node with the same)",
        f"b: metadata.annotations[karpenter.sh/do-not-disrupt] is maybe: {fault}",
    ]
    assert answer.exit_code == 0
    assert [one["object"] for one in problems if "do-not" in one["field"]] == ["Node/a", "Node/b", "Node/b"]
