"""`joiner cost`: what the nodes of a dump cost by pool, and what the same pods would cost on new nodes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.command_runs import AMD64, joiner, pod, pool, write

Json = dict[str, Any]

ZONE = "us-east-1a"
SIZES = {"m5.large": ("1930m", "7000Mi"), "m5.xlarge": ("3920m", "14500Mi"), "c6i.4xlarge": ("15890m", "29000Mi")}
LIST_PRICES = {"m5.large": 0.096, "m5.xlarge": 0.192, "c6i.4xlarge": 0.68}
ROOT = 20 * 0.08 / 730
"""$/h of the 20 GiB of gp3 that a class without volumes has."""


def labels_of(instance_type: str, pool_name: str, capacity: str = "on-demand") -> dict[str, str]:
    mine = {"karpenter.sh/nodepool": pool_name} if pool_name else {}
    return mine | {
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/zone": ZONE,
        "karpenter.sh/capacity-type": capacity,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }


def node(name: str, instance_type: str, pool_name: str = "", capacity: str = "on-demand") -> Json:
    cpu, memory = SIZES.get(instance_type, ("4", "8Gi"))
    room = {"cpu": cpu, "memory": memory, "pods": "58"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels_of(instance_type, pool_name, capacity)},
        "spec": {"providerID": f"aws:///{ZONE}/i-{name}"},
        "status": {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def claim(name: str, instance_type: str, pool_name: str, capacity: str = "on-demand") -> Json:
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    on = [{"type": kind, "status": "True"} for kind in ("Launched", "Registered", "Initialized")]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": labels_of(instance_type, pool_name, capacity)},
        "spec": {"nodeClassRef": ref, "requirements": []},
        "status": {"providerID": f"aws:///{ZONE}/i-{name}", "nodeName": name, "conditions": on},
    }


def managed(name: str, instance_type: str, pool_name: str = "default", capacity: str = "on-demand") -> list[Json]:
    return [node(name, instance_type, pool_name, capacity), claim(name, instance_type, pool_name, capacity)]


def running(name: str, where: str, cpu: str, **spec: Any) -> Json:
    return pod(name, cpu, "128Mi", nodeName=where, **spec) | {"status": {"phase": "Running"}}


def cost_of(folder: Path, catalogue: Path, *manifests: Json, options: tuple[str, ...] = ()) -> Json:
    answer = joiner("cost", "-f", write(folder, *manifests), "--catalogue", catalogue, "-o", "json", *options)
    assert answer.exit_code == 0, answer.err
    found: Json = answer.json
    return found


def test_the_parts_of_each_pool_add_up_to_the_price_of_its_nodes(tmp_path: Path, catalogue: Path) -> None:
    found = cost_of(
        tmp_path,
        catalogue,
        pool(requirements=[AMD64]),
        pool("large", requirements=[AMD64]),
        *managed("a", "m5.large"),
        *managed("b", "m5.large"),
        *managed("c", "c6i.4xlarge", "large"),
        running("web", "a", "1500m"),
        running("db", "c", "8"),
    )

    default, large = found["pools"]
    assert [(one["nodePoolKind"], one["nodePool"], one["nodes"]) for one in (default, large)] == [
        ("NodePool", "default", 2),
        ("NodePool", "large", 1),
    ]
    assert default["priceParts"]["instance"] == pytest.approx(2 * LIST_PRICES["m5.large"])
    assert default["priceParts"]["volumes"] == pytest.approx(2 * ROOT, rel=0.01)
    assert default["priceParts"]["running"] > 0
    for one in (default, large, found):
        assert one["pricePerHour"] == pytest.approx(sum(one["priceParts"].values()))
        assert one["pricePerMonth"] == pytest.approx(730 * one["pricePerHour"], abs=0.01)
    assert found["pricePerHour"] == pytest.approx(default["pricePerHour"] + large["pricePerHour"])
    assert default["requested"]["cpu"] == pytest.approx(1500 / 3860, abs=1e-4)
    assert large["requested"]["cpu"] == pytest.approx(8 / 15.89, abs=1e-4)


def test_a_node_costs_as_much_as_the_plan_that_launches_it(tmp_path: Path, catalogue: Path) -> None:
    waiting = write(tmp_path, pool(requirements=[AMD64]), pod("web", "1500m"))
    planned = joiner("plan", "-f", waiting, "--catalogue", catalogue, "-o", "json").json
    (launched,) = planned["nodes"]
    labels = labels_of(launched["instanceType"], "default") | {"topology.kubernetes.io/zone": launched["zone"]}
    there, mine = managed("a", launched["instanceType"])
    for one in (there, mine):
        one["metadata"]["labels"] = labels

    found = cost_of(tmp_path, catalogue, pool(requirements=[AMD64]), there, mine, running("web", "a", "1500m"))

    assert found["priceParts"] == planned["priceParts"]
    assert found["packedAnew"]["pricePerHour"] == found["pricePerHour"] == planned["pricePerHour"]
    assert found["packedAnew"]["optimal"]


def test_pods_packed_anew_cost_what_a_plan_for_them_costs(tmp_path: Path, catalogue: Path) -> None:
    pods = [("a", "600m"), ("b", "600m"), ("c", "500m")]
    waiting = [pod(name, cpu, "128Mi") for name, cpu in pods]
    planned = joiner(
        "plan", "-f", write(tmp_path, pool(requirements=[AMD64]), *waiting), "--catalogue", catalogue, "-o", "json"
    ).json
    nodes = [each for name, _ in pods for each in managed(name, "m5.xlarge")]

    found = cost_of(
        tmp_path, catalogue, pool(requirements=[AMD64]), *nodes, *(running(name, name, cpu) for name, cpu in pods)
    )

    anew = found["packedAnew"]
    assert anew["pricePerHour"] == planned["pricePerHour"] < found["pricePerHour"]
    assert (anew["comparable"], anew["pending"], anew["nodes"]) == (True, [], len(planned["nodes"]))
    assert anew["replacedPricePerHour"] == found["pricePerHour"]


def test_daemon_pods_and_pods_that_wait_need_no_node_of_the_comparison(tmp_path: Path, catalogue: Path) -> None:
    owner = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}]
    agent = running("agent-x", "a", "100m")
    agent["metadata"]["ownerReferences"] = owner

    found = cost_of(
        tmp_path, catalogue, pool(requirements=[AMD64]), *managed("a", "m5.large"), agent, pod("waiting", "1")
    )

    assert (found["packedAnew"]["nodes"], found["packedAnew"]["pricePerHour"]) == (0, 0)
    assert found["pools"][0]["requested"]["cpu"] == pytest.approx(100 / 1930, abs=1e-4)


def test_other_nodes_are_shown_apart_and_their_free_resources_are_used(tmp_path: Path, catalogue: Path) -> None:
    other = node("theirs", "c6i.4xlarge")

    found = cost_of(
        tmp_path,
        catalogue,
        pool(requirements=[AMD64]),
        other,
        *managed("a", "m5.large"),
        running("web", "a", "1500m"),
        running("base", "theirs", "1"),
    )

    assert (found["nodes"], found["otherNodes"]["nodes"]) == (1, 1)
    assert found["otherNodes"]["priceParts"]["instance"] == pytest.approx(LIST_PRICES["c6i.4xlarge"])
    assert found["pricePerHour"] < LIST_PRICES["c6i.4xlarge"]
    assert found["packedAnew"]["nodes"] == 0


def test_an_instance_that_has_not_joined_yet_costs_as_much(tmp_path: Path, catalogue: Path) -> None:
    booting = claim("a", "m5.large", "default")

    found = cost_of(tmp_path, catalogue, pool(requirements=[AMD64]), booting, pod("waiting", "1"))

    assert (found["nodes"], found["notJoined"], found["pools"][0]["requested"]) == (1, 1, {})
    assert found["priceParts"]["instance"] == pytest.approx(LIST_PRICES["m5.large"])
    assert found["packedAnew"] is None


def test_an_instance_that_has_not_joined_yet_is_in_no_comparison_as_its_pods_are_not(
    tmp_path: Path, catalogue: Path
) -> None:
    static = pool("static", requirements=[AMD64], replicas=2)
    del static["spec"]["disruption"]
    joined = [
        pool(requirements=[AMD64]),
        static,
        *managed("a", "m5.large"),
        *managed("s", "m5.large", "static"),
        running("web", "a", "1500m"),
    ]
    booting = [claim("b", "m5.xlarge", "default"), claim("t", "m5.xlarge", "static"), pod("waiting", "3")]

    without, found = cost_of(tmp_path, catalogue, *joined), cost_of(tmp_path, catalogue, *joined, *booting)
    table = joiner("cost", "-f", write(tmp_path, *joined, *booting), "--catalogue", catalogue).out

    assert found["packedAnew"] == without["packedAnew"]
    assert found["packedAnew"]["replacedPricePerHour"] == without["pricePerHour"] < found["pricePerHour"]
    assert (found["nodes"], found["notJoined"], found["packedAnew"]["comparable"]) == (4, 2, True)
    assert "2 instances of them have not joined yet: the comparison leaves them out, with the pods that wait." in table


def test_capacity_buffers_are_not_compared_while_an_instance_has_not_joined(tmp_path: Path, catalogue: Path) -> None:
    buffer = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "default"},
        "spec": {"replicas": 1, "podTemplateRef": {"name": "chunk"}},
    }
    chunk = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}]}}
    metadata = {"name": "chunk", "namespace": "default"}
    template = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": chunk}
    nodes = [pool(requirements=[AMD64]), *managed("a", "m5.large"), running("web", "a", "1500m")]
    alone = cost_of(tmp_path, catalogue, *nodes, buffer, template)
    found = cost_of(tmp_path, catalogue, *nodes, buffer, template, booting := claim("b", "m5.large", "default"))
    files = write(tmp_path, *nodes, buffer, template, booting)
    table = joiner("cost", "-f", files, "--catalogue", catalogue).out

    assert (alone["packedAnew"]["comparable"], found["packedAnew"]["comparable"]) == (True, False)
    assert "those that have not joined yet may have the room of capacity buffers" in table


def test_a_node_without_a_price_is_counted_and_nothing_is_compared(tmp_path: Path, catalogue: Path) -> None:
    manifests = [pool(requirements=[AMD64]), *managed("a", "m9.large"), *managed("b", "m5.large")]
    pods = [running("web", "a", "1500m"), running("db", "b", "1")]

    found = cost_of(tmp_path, catalogue, *manifests, *pods)
    table = joiner("cost", "-f", write(tmp_path, *manifests, *pods), "--catalogue", catalogue).out

    assert (found["nodes"], found["unpriced"], found["packedAnew"]["comparable"]) == (2, 1, False)
    assert (found["pricePerHour"], found["pricePerMonth"], found["pools"][0]["pricePerHour"]) == (None, None, None)
    assert "2 nodes of Joiner for at least $" in table
    assert "1 node without a known price: the catalogue has none for their instance type" in table
    assert table.endswith("No comparison with new nodes, because prices are missing.\n")


def test_pods_that_no_new_node_would_hold_are_named_instead_of_a_comparison(tmp_path: Path, catalogue: Path) -> None:
    manifests = [pool(requirements=[AMD64]), *managed("a", "m5.large")]
    pinned = running("pinned", "a", "1", nodeSelector={"team": "red"})

    answer = joiner("cost", "-f", write(tmp_path, *manifests, pinned), "--catalogue", catalogue)

    assert answer.exit_code == 0
    assert "No comparison with new nodes: 1 pod would have no place on them (default/pinned)" in answer.out


def test_prices_of_instances_only_leave_the_other_parts_out(tmp_path: Path, catalogue: Path) -> None:
    manifests = [pool(requirements=[AMD64]), *managed("a", "m5.large"), running("web", "a", "1500m")]

    found = cost_of(tmp_path, catalogue, *manifests, options=("--prices", "instance"))

    assert found["priceParts"] == {"instance": LIST_PRICES["m5.large"], "volumes": 0, "address": 0, "running": 0}
    assert found["pricePerHour"] == LIST_PRICES["m5.large"]


def test_table_and_yaml_say_the_same_as_json(tmp_path: Path, catalogue: Path) -> None:
    files = write(
        tmp_path,
        pool(requirements=[AMD64]),
        *managed("a", "m5.xlarge"),
        *managed("b", "m5.xlarge"),
        running("web", "a", "500m"),
        running("db", "b", "500m"),
    )

    table = joiner("cost", "-f", files, "--catalogue", catalogue)
    shown = joiner("cost", "-f", files, "--catalogue", catalogue, "-o", "json").json
    written = yaml.safe_load(joiner("cost", "-f", files, "--catalogue", catalogue, "-o", "yaml").out)

    assert written == shown
    heading, row, _, total, compared = table.out.splitlines()
    assert heading.split() == ["POOL", "NODES", "CPU", "MEMORY", "INSTANCES", "VOLUMES", "RUNNING", "$/H", "$/MONTH"]
    assert row.split()[:2] == ["default", "2"]
    assert row.split()[-2:] == [f"{shown['pricePerHour']:.4f}", f"{shown['pricePerMonth']:,.2f}"]
    assert total.startswith(f"2 nodes of Joiner for ${shown['pricePerHour']:.4f}/h, ")
    anew = shown["packedAnew"]
    assert compared.startswith(f"Packed anew, the same pods would need 1 node for ${anew['pricePerHour']:.4f}/h, ")
    assert f"${shown['pricePerHour'] - anew['pricePerHour']:.4f}/h less" in compared


def test_invalid_input_is_reported_and_the_rest_is_shown(tmp_path: Path, catalogue: Path) -> None:
    broken = pool("broken", weight=-1)
    files = write(tmp_path, pool(requirements=[AMD64]), broken, *managed("a", "m5.large"), running("w", "a", "1"))

    answer = joiner("cost", "-f", files, "--catalogue", catalogue)

    assert answer.exit_code == 1
    assert "NodePool/broken: spec.weight is -1" in answer.err
    assert "1 node of Joiner" in answer.out


def test_manifests_without_nodes_are_said_to_have_none(tmp_path: Path, catalogue: Path) -> None:
    answer = joiner("cost", "-f", write(tmp_path, pool()), "--catalogue", catalogue)

    assert (answer.exit_code, answer.out) == (0, "There are no nodes among the manifests.\n")


def test_a_claim_of_a_user_has_a_line_of_its_own_and_is_not_compared(tmp_path: Path, catalogue: Path) -> None:
    mine = managed("mine", "m5.xlarge", "")

    found = cost_of(
        tmp_path,
        catalogue,
        pool(requirements=[AMD64]),
        *mine,
        *managed("a", "m5.large"),
        running("web", "a", "1500m"),
        running("own", "mine", "100m"),
    )

    claim_line, pool_line = found["pools"]
    assert (claim_line["nodePoolKind"], claim_line["nodePool"], claim_line["nodes"]) == ("NodeClaim", "mine", 1)
    assert claim_line["priceParts"]["volumes"] > 0
    assert found["otherNodes"] is None
    assert found["packedAnew"]["replacedPricePerHour"] == pool_line["pricePerHour"] < found["pricePerHour"]


def test_nodes_that_are_not_launched_yet_are_not_in_the_comparison(tmp_path: Path, catalogue: Path) -> None:
    waiting = claim("waiting", "m5.large", "")
    waiting["metadata"]["labels"] = {}
    waiting["spec"]["requirements"] = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
    ]
    del waiting["status"]
    static = pool("static", requirements=[AMD64], replicas=5)
    del static["spec"]["disruption"]

    found = cost_of(
        tmp_path,
        catalogue,
        pool(requirements=[AMD64]),
        static,
        waiting,
        *managed("a", "m5.large"),
        *managed("s", "m5.large", "static"),
        running("web", "a", "1500m"),
    )

    assert (found["nodes"], [one["nodes"] for one in found["pools"]]) == (2, [1, 1])
    assert found["packedAnew"]["nodes"] <= 2
    assert found["packedAnew"]["pricePerHour"] <= found["pricePerHour"]
