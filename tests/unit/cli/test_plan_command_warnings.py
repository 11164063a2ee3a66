"""`joiner plan` warns about pools, classes and requirements that give no nodes, and about values without effect."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.unit.cli.command_runs import joiner, node_class, pod, pool, write


def test_a_pool_with_a_capacity_type_without_prices_is_reported(tmp_path: Path, catalogue: Path) -> None:
    def warnings(*values: str) -> list[str]:
        requirement = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": list(values)}
        files = write(tmp_path, pool(requirements=[requirement]))
        problems = joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json").json["problems"]
        return [one["message"] for one in problems if one["severity"] == "warning"]

    assert warnings("spot") == ["the catalogue has no spot prices (--catalogue)"]
    assert warnings("spot", "on-demand") == []


def test_pools_and_classes_that_are_not_ready_in_a_dump_are_reported(tmp_path: Path, catalogue: Path) -> None:
    def status(message: str) -> Mapping[str, Any]:
        return {"conditions": [{"type": "Ready", "status": "False", "reason": "SubnetsNotFound", "message": message}]}

    dump = [
        {**pool(), "status": status("NodeClassReady: EC2NodeClass/default: no subnet has tag a = b")},
        node_class(status("SubnetsReady: no subnet has tag a = b")),
        {**pool("fine"), "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
    ]
    answer = joiner("plan", "-f", write(tmp_path, *dump, pod("a")), "--catalogue", catalogue, "-o", "json")

    assert answer.exit_code == 2
    assert answer.json["nodes"] == []
    assert [(one["nodePool"], one["reason"]) for one in answer.json["pending"][0]["reasons"]] == [
        (
            "default",
            "NodePool/default is not ready: NodeClassReady: EC2NodeClass/default: no subnet has tag a = b",
        ),
        ("fine", "its class EC2NodeClass/default is not ready: SubnetsReady: no subnet has tag a = b"),
    ]
    assert [(one["object"], one["field"], one["value"], one["severity"]) for one in answer.json["problems"]] == [
        ("EC2NodeClass/default", "status.conditions[Ready]", "False", "warning"),
        ("NodePool/default", "status.conditions[Ready]", "False", "warning"),
    ]
    assert answer.json["problems"][0]["message"] == (
        "SubnetsReady: no subnet has tag a = b; the cluster launches no nodes for it, so this plan has none: correct "
        "it, or remove its status to plan it as ready"
    )
    assert (
        "EC2NodeClass/default: status.conditions[Ready] is False: SubnetsReady: no subnet has tag a = b" in answer.err
    )


def test_an_unknown_required_value_is_reported_with_the_nearest(tmp_path: Path, catalogue: Path) -> None:
    wanted = {
        "node.kubernetes.io/instance-type": ["m5.large", "m5.lrge"],
        "topology.kubernetes.io/zone": ["us-east-1z", "us-east-1a"],
        "karpenter.k8s.aws/instance-family": ["q9"],
        "example.com/team": ["any"],
    }
    wrong = pool(requirements=[{"key": key, "operator": "In", "values": values} for key, values in wanted.items()])
    answer = joiner("plan", "-f", write(tmp_path, wrong, pod("a")), "--catalogue", catalogue, "-o", "json")

    assert [
        f"{one['field']} is {one['value']}: {one['message']}"
        for one in answer.json["problems"]
        if one["severity"] == "warning"
    ] == [
        "spec.template.spec.requirements[karpenter.k8s.aws/instance-family] is q9: no instance type of the catalogue "
        "has it; "
        "there are g5, m5, r5, c6i, c7g and 4 more",
        "spec.template.spec.requirements[node.kubernetes.io/instance-type] is m5.lrge: the catalogue has no such "
        "instance type; "
        "did you mean m5.large or m5.xlarge?",
        "spec.template.spec.requirements[topology.kubernetes.io/zone] is us-east-1z: the catalogue has no such zone; "
        "there are us-east-1a, us-east-1b, us-east-1c, us-east-1d, us-east-1f",
    ]
    assert (
        "NodePool/default: spec.template.spec.requirements[node.kubernetes.io/instance-type] is m5.lrge" in answer.err
    )


def test_requirements_that_no_type_meets_together_are_reported(tmp_path: Path, catalogue: Path) -> None:
    wanted = {"node.kubernetes.io/instance-type": ["m5.large"], "kubernetes.io/arch": ["arm64"]}
    wrong = pool(requirements=[{"key": key, "operator": "In", "values": values} for key, values in wanted.items()])
    answer = joiner("plan", "-f", write(tmp_path, wrong, pod("a")), "--catalogue", catalogue, "-o", "json")

    (problem,) = [one for one in answer.json["problems"] if one["field"].endswith("requirements")]
    assert (problem["object"], problem["severity"]) == ("NodePool/default", "warning")
    assert problem["message"].startswith("no instance type of the catalogue meets all of them; alone, ")
    assert problem["message"].endswith(" 1 node.kubernetes.io/instance-type")


def test_requirements_without_an_offering_now_are_not_a_mistake(tmp_path: Path, catalogue: Path) -> None:
    wanted = {"topology.kubernetes.io/region": ["us-east-1"], "topology.kubernetes.io/zone": ["us-east-1b"]}
    sound = pool(requirements=[{"key": key, "operator": "In", "values": values} for key, values in wanted.items()])
    elsewhere = node_class({"subnets": [{"id": "subnet-1", "zone": "us-east-1a"}]})
    answer = joiner("plan", "-f", write(tmp_path, sound, elsewhere, pod("a")), "--catalogue", catalogue, "-o", "json")

    assert answer.exit_code == 2
    assert not [one for one in answer.json["problems"] if one["field"].endswith("requirements")]


def test_limits_that_are_negative_or_misspelt_are_reported(tmp_path: Path, catalogue: Path) -> None:
    negative, misspelt = pool("negative", limits={"cpu": -1}), pool("misspelt", limits={"cpus": "10"})

    answer = joiner("plan", "-f", write(tmp_path, negative, misspelt, pod("one")), "--catalogue", catalogue)

    assert answer.exit_code == 1
    assert "NodePool/negative: spec.limits.cpu is -1: give a quantity of at least zero" in answer.err
    assert (
        "note: " in answer.err
        and "NodePool/misspelt: spec.limits.cpus is 10: it limits nothing, because no instance type of the catalogue "
        "has this resource; did you mean cpu?"
        in answer.err
    )


CLASS_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def node_claim(name: str, instance_type: str, class_name: str = "default") -> dict[str, Any]:
    """Return a NodeClaim as a user writes it."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [instance_type]}
    spec = {"nodeClassRef": {**CLASS_REF, "name": class_name}, "requirements": [requirement]}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name}, "spec": spec}


def test_a_claim_of_a_user_is_planned_as_the_node_that_a_cluster_launches_for_it(
    tmp_path: Path, catalogue: Path
) -> None:
    files = write(tmp_path, node_class({}), node_claim("mine", "m5.xlarge"), pod("a", cpu="3"))
    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json")

    assert answer.exit_code == 0
    assert [
        (one["nodePoolKind"], one["nodePool"], one["instanceType"], one["pods"]) for one in answer.json["nodes"]
    ] == [("NodeClaim", "mine", "m5.xlarge", ["default/a"])]
    assert "NodeClaim/mine  m5.xlarge" in joiner("plan", "-f", files, "--catalogue", catalogue).out


def test_a_claim_of_a_user_without_instance_or_class_is_reported(tmp_path: Path, catalogue: Path) -> None:
    files = write(
        tmp_path, pool(), node_class({}), node_claim("mine", "m5.lrge", "defualt"), pod("a", cpu="300", memory="1Gi")
    )
    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json")

    assert answer.exit_code == 1
    assert answer.json["nodes"] == []
    assert [
        (one["object"], one["field"], one["message"].split(";")[0], one["severity"])
        for one in answer.json["problems"]
        if one["object"] == "NodeClaim/mine"
    ] == [
        ("NodeClaim/mine", "spec.nodeClassRef", "there is no such class among the manifests", "error"),
        (
            "NodeClaim/mine",
            "",
            "no instance is launched for it: its class EC2NodeClass/defualt is not known: there is no such class among "
            "the manifests",
            "warning",
        ),
        (
            "NodeClaim/mine",
            "spec.requirements[node.kubernetes.io/instance-type]",
            "the catalogue has no such instance type",
            "warning",
        ),
    ]
    # The claim launches one node for itself; a pod that does not fit there is waiting for a pool.
    assert [one["nodePool"] for one in answer.json["pending"][0]["reasons"]] == ["default"]


def test_a_claim_of_a_user_whose_label_names_no_pool_is_planned_with_a_warning(tmp_path: Path, catalogue: Path) -> None:
    claim = node_claim("mine", "m5.xlarge")
    claim["metadata"]["labels"] = {"karpenter.sh/nodepool": "gone"}
    files = write(tmp_path, node_class({}), claim, pod("a", cpu="3"))
    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json")

    assert [one["instanceType"] for one in answer.json["nodes"]] == ["m5.xlarge"]
    assert [
        (one["field"], one["severity"]) for one in answer.json["problems"] if one["object"] == "NodeClaim/mine"
    ] == [("metadata.labels[karpenter.sh/nodepool]", "warning")]


def test_a_plan_says_that_it_ignores_the_windows_of_schedules_and_what_it_counts(
    tmp_path: Path, catalogue: Path
) -> None:
    def scheduled(manifest: Mapping[str, Any], text: str) -> dict[str, Any]:
        metadata = {**manifest["metadata"], "annotations": {"joiner.dev/schedule": text}}
        return {**manifest, "metadata": metadata}

    window = "0 8 * * mon-fri for 10h = 6"
    buffer = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare"},
        "spec": {"podTemplateRef": {"name": "spare"}, "limits": {"cpu": "2"}},
    }
    template = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "spare"},
        "template": {"spec": pod("a")["spec"]},
    }
    static, misspelt, idle = (pool(name, replicas=at) for at, name in ((2, "static"), (1, "misspelt"), (1, "idle")))
    files = write(
        tmp_path,
        node_class(),
        template,
        scheduled(static, window),
        scheduled(misspelt, "sometimes"),
        scheduled(idle, "0 0 31 2 * for 1h = 2"),
        scheduled(pool("dynamic"), window),
        scheduled(buffer, window),
    )

    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json")

    notes = {one["object"]: one["message"] for one in answer.json["problems"] if "time of day" in one["message"]}
    assert notes == {
        "NodePool/static": "the plan has no time of day: it counts its spec.replicas (2) and ignores the windows",
        "CapacityBuffer/default/spare": "the plan has no time of day: it counts its spec and ignores the windows",
    }


def test_default_requirements_of_a_provisioner_give_no_warning_about_some_missing_types(tmp_path: Path) -> None:
    def warnings(*types: str, **spec: Any) -> list[str]:
        provisioner = {
            "apiVersion": "karpenter.sh/v1alpha5",
            "kind": "Provisioner",
            "metadata": {"name": "old"},
            "spec": {"provider": {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}, **spec},
        }
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        file = folder / "types.json"
        file.write_text(joiner("catalogue", *types, "-o", "json").out)
        answer = joiner("plan", "-f", write(folder, provisioner), "--catalogue", file, "-o", "json")
        return [one["message"] for one in answer.json["problems"] if "no instance type" in one["message"]]

    category = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "r"]}

    assert warnings("m5.large", "c5.large") == []
    assert warnings("m5.large", "c5.large", requirements=[category])
    assert warnings("g5.2xlarge")
