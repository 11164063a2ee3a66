"""`joiner plan`: the table, the JSON, the HTML page, and the exit codes."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.command_runs import AMD64, deployment, joiner, node_class, pod, pool, write

C = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c"]}


IN_A = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Fifteen pods for c6i nodes, one that is too large, and one with a scheduling gate."""
    gated = pod("gated", schedulingGates=[{"name": "example.com/quota"}])
    return write(
        tmp_path, pool(requirements=[AMD64, C, IN_A]), deployment("web", 15, "1", "1Gi"), pod("huge", cpu="500"), gated
    )


def test_the_table_shows_price_bound_nodes_in_groups_and_what_stays_pending(shop: Path, catalogue: Path) -> None:
    answer = joiner("plan", "-f", shop, "--catalogue", catalogue)

    assert (
        answer.out
        == """\
1 new node for 15 pods, 2 pods pending.
$0.6922/h, which is optimal: no plan for these pods costs less.
Of this: $0.6800 for instances, $0.0022 for volumes, $0.0100 for the running of nodes.

NODES  POOL     INSTANCE TYPE  ZONE        CAPACITY   $/H EACH     $/H  PODS   CPU  MEMORY  WHICH
    1  default  c6i.4xlarge    us-east-1a  on-demand    0.6922  0.6922    15  94 %    56 %  shop/web-0…14

PENDING  WHICH          POOL     WHY
      1  default/gated  -        it has scheduling gates: example.com/quota; its scheduler ignores it until they \
are removed
      1  default/huge   default  no instance type has enough resources (nearest: c6i.4xlarge in us-east-1a, \
short of 484.11 cpu)
"""
    )


def test_pools_that_exclude_a_pod_for_the_same_reason_share_a_line(tmp_path: Path, catalogue: Path) -> None:
    chosen = pod("large", cpu="900", nodeSelector={"karpenter.sh/nodepool": "b"})
    others = [pool(name) for name in ("a", "c", "d", "e")]

    answer = joiner("plan", "-f", write(tmp_path, *others, pool("b"), chosen), "--catalogue", catalogue)

    first, second = answer.out.partition("WHY\n")[2].splitlines()
    assert first.split()[:4] == ["1", "default/large", "b", "no"]
    assert second.split()[:6] == ["a,", "c,", "d", "and", "1", "more"]
    assert second.endswith(
        "incompatible requirements: the pod wants karpenter.sh/nodepool In [b], and no node of this pool has that"
    )


def test_commentary_goes_to_stderr(shop: Path, catalogue: Path) -> None:
    commentary = joiner("plan", "-f", shop, "--catalogue", catalogue).err

    assert commentary.startswith("joiner: note: ")
    assert (
        "NodePool/default: spec.template.spec.nodeClassRef is EC2NodeClass/default: there is no such class among the "
        "manifests" in commentary
    )
    assert re.search(r"read 1 \w+(, \d \w+)* in \d+\.\d\d s, planned in \d+\.\d\d s", commentary)


def test_an_empty_plan_is_reported(tmp_path: Path, catalogue: Path) -> None:
    answer = joiner("plan", "-f", write(tmp_path, pool()), "--catalogue", catalogue)

    assert (answer.out, answer.exit_code) == ("No pods are pending: nothing to do.\n", 0)


def test_the_json_has_its_documented_fields(shop: Path, catalogue: Path) -> None:
    plan = joiner("plan", "-f", shop, "--catalogue", catalogue, "-o", "json").json

    assert set(plan) >= {
        "nodes",
        "existing",
        "pending",
        "pricePerHour",
        "lowerBoundPerHour",
        "gap",
        "optimal",
        "cutShort",
        "seconds",
        "problems",
    }
    assert set(plan["seconds"]) == {"read", "plan"}
    node = plan["nodes"][0]
    assert {
        key: node[key] for key in ("nodePool", "instanceType", "zone", "capacityType", "pricePerHour", "taints")
    } == {
        "nodePool": "default",
        "instanceType": "c6i.4xlarge",
        "zone": "us-east-1a",
        "capacityType": "on-demand",
        "pricePerHour": 0.692192,
        "taints": [],
    }
    assert node["alternatives"][0] == {
        key: node[key] for key in ("instanceType", "zone", "capacityType", "pricePerHour")
    }
    assert node["pods"] == sorted(f"shop/web-{number}" for number in range(15)) or set(node["pods"]) == {
        f"shop/web-{n}" for n in range(15)
    }
    assert node["labels"]["node.kubernetes.io/instance-type"] == "c6i.4xlarge"
    assert node["requests"] == {"cpu": "15", "memory": "15Gi", "pods": "15"}
    assert node["allocatable"]["cpu"] == "15890m"
    assert [one["pod"] for one in plan["pending"]] == ["default/gated", "default/huge"]
    assert plan["pending"][1]["reasons"][0]["nodePool"].endswith("default")
    assert plan["pending"][1]["reasons"][0]["nearest"]["instanceType"] == "c6i.4xlarge"
    assert plan["problems"][0]["object"] == "NodePool/default"


def test_yaml_has_the_same_content_as_json(shop: Path, catalogue: Path) -> None:
    def planned(output: str) -> Mapping[str, Any]:
        found = yaml.safe_load(joiner("plan", "-f", shop, "--catalogue", catalogue, "-o", output).out)
        return {key: value for key, value in found.items() if key != "seconds"}

    assert planned("yaml") == planned("json")


def test_exit_codes_distinguish_placed_pending_and_unreadable(tmp_path: Path, shop: Path, catalogue: Path) -> None:
    assert joiner("plan", "-f", shop, "--catalogue", catalogue).exit_code == 2

    placed = write(tmp_path, pool(), pod("a"))
    assert joiner("plan", "-f", placed, "--catalogue", catalogue).exit_code == 0

    wrong = write(tmp_path, pool(), pod("a", cpu="one"))
    answer = joiner("plan", "-f", wrong, "--catalogue", catalogue)
    assert (answer.exit_code, answer.out) == (1, "")
    assert answer.err.startswith(
        f"joiner: {wrong}, document 2: Pod/default/a: spec.containers[0].resources.requests[cpu] is one: "
        "write a Kubernetes quantity such as 500m, 2 or 4Gi\n"
    )
    assert "joiner: there is nothing to plan without 1 invalid object\n" in answer.err


def test_a_pipe_in_a_folder_is_reported_and_not_read(tmp_path: Path, catalogue: Path) -> None:
    folder = write(tmp_path, pool(), deployment("web", 2)).parent
    os.mkfifo(folder / "pipe.yaml")

    answer = joiner("plan", "-f", folder, "--catalogue", catalogue)

    assert answer.exit_code == 1
    assert "pipe.yaml: it is no regular file: remove it from the folder, or name it itself" in answer.err
    assert "for 2 pods" in answer.out


def test_manifests_come_from_folders_and_from_stdin(tmp_path: Path, catalogue: Path) -> None:
    write(tmp_path, pool())
    text = yaml.safe_dump(pod("from-stdin"))
    plan = joiner("plan", "-f", tmp_path, "-f", "-", "--catalogue", catalogue, "-o", "json", stdin=text).json

    assert [node["pods"] for node in plan["nodes"]] == [["default/from-stdin"]]


def test_the_region_chooses_from_a_catalogue_of_several(tmp_path: Path, catalogue: Path) -> None:
    answer = joiner("plan", "-f", write(tmp_path, pool(), pod("a")), "--catalogue", catalogue, "--region", "eu-west-1")

    assert answer.exit_code == 1
    assert "it has no offerings in eu-west-1: its zones are us-east-1a" in answer.err


def test_a_resolved_class_keeps_its_zones(tmp_path: Path, catalogue: Path) -> None:
    in_c = node_class({"subnets": [{"id": "subnet-1", "zone": "us-east-1c"}]})
    plan = joiner("plan", "-f", write(tmp_path, pool(), in_c, pod("a")), "--catalogue", catalogue, "-o", "json").json

    assert [node["zone"] for node in plan["nodes"]] == ["us-east-1c"]


class Page(HTMLParser):
    """The tags of a page, and its texts under the mouse pointer."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.whys: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "data-why":
                self.whys.append(value or "")
            if name in ("src", "href"):
                self.links.append(value or "")


def test_the_html_page_is_self_contained(shop: Path, catalogue: Path) -> None:
    answer = joiner("plan", "-f", shop, "--catalogue", catalogue, "-o", "html")
    page = Page(answer.out)

    assert answer.exit_code == 2
    assert page.links == []
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert "url(" not in answer.out
    assert any("c6i.4xlarge in us-east-1a" in why and "15 pods" in why for why in page.whys)
    assert "no instance type has enough resources" in answer.out


def test_names_with_markup_are_escaped(tmp_path: Path, catalogue: Path) -> None:
    labelled = pool(node={"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]})
    text = yaml.safe_dump(labelled).replace("name: default\n", "name: <script>alert(1)</script>\n", 1)
    answer = joiner("plan", "-f", write(tmp_path, text), "--catalogue", catalogue, "-o", "html")

    assert (answer.exit_code, answer.out) == (1, "")


def test_the_same_seed_gives_the_same_plan_whatever_the_order_of_files(tmp_path: Path, catalogue: Path) -> None:
    manifests = [
        pool(requirements=[AMD64]),
        deployment("web", 7, "700m", "2Gi"),
        deployment("api", 5, "300m", "1Gi"),
        pod("one", "2", "3Gi"),
    ]
    forward, backward = tmp_path / "forward", tmp_path / "backward"
    for folder, order in ((forward, manifests), (backward, manifests[::-1])):
        folder.mkdir()
        write(folder, *order)
    plans = [
        joiner("plan", "-f", one, "--catalogue", catalogue, "--deadline", 20, "--seed", 7, "-o", "json").json
        for one in (forward, backward)
    ]

    assert plans[0]["nodes"] == plans[1]["nodes"]


def test_a_limit_that_allows_no_node_is_a_reason(tmp_path: Path, catalogue: Path) -> None:
    files = write(tmp_path, pool(limits={"cpu": 1}), pod("three", cpu="3"))

    answer = joiner("plan", "-f", files, "--catalogue", catalogue)

    assert (answer.exit_code, answer.out.splitlines()[0]) == (2, "1 pod pending.")
    assert "limits" in answer.out
    assert "greedyPricePerHour" not in joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json").json


def test_a_mistyped_command_line_has_another_exit_code_than_pending_pods(shop: Path) -> None:
    assert joiner("plan").exit_code == 1
    assert joiner("plan", "-f", shop, "--deadline", 0).exit_code == 1
    assert joiner("plan", "-f", shop, "-o", "xml").exit_code == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_result_that_cannot_be_written_is_a_failure(shop: Path, catalogue: Path) -> None:
    asked = [
        sys.executable,
        "-c",
        "from joiner_cli.app import main; main()",
        "plan",
        "-f",
        str(shop),
        "--catalogue",
        str(catalogue),
    ]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(asked, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert ended.returncode == 1
    assert ended.stderr.endswith("joiner: the result could not be written: No space left on device\n")
