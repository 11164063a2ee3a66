"""Help texts in the docs match the program, and so do the kinds that they name."""

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from joiner.planning import LISTED
from joiner_cli.commands import app
from joiner_cli.manifests.openapi_schemas import Schemas
from tests.unit.cli.command_runs import joiner, node_class, pool

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```console\n\$ joiner (?P<arguments>[^\n]*--help)\n(?P<output>.*?)```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", ROOT / "docs" / "command.md"]


def help_text(arguments: str) -> str:
    result = CliRunner().invoke(app, arguments.split(), terminal_width=100, env={"COLUMNS": "100"}, prog_name="joiner")
    return "\n".join(line.rstrip() for line in result.stdout.splitlines()) + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_help_blocks_match_the_program(page: Path) -> None:
    blocks = list(BLOCK.finditer(page.read_text(encoding="utf-8")))

    assert blocks, f"{page} shows no help"
    for block in blocks:
        assert block["output"] == help_text(block["arguments"])


DUMP = re.compile(r"kubectl get ([a-z0-9,]+) -A -o yaml")
SHORT_NAMES = {"pvc": "persistentvolumeclaims", "pv": "persistentvolumes"}
EARLIER_KINDS = {"provisioners", "awsnodetemplates", "machines"}
OF_DISRUPTION = {"poddisruptionbudgets"}
NOT_IN_PLANS = {"CSIDriver", "CronJob"}
"""Kinds whose schemas are checked, and which have no effect on a plan."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_command_for_a_dump_names_every_kind_that_a_plan_of_a_cluster_reads(page: Path) -> None:
    (named,) = DUMP.findall(page.read_text(encoding="utf-8"))

    kinds = {SHORT_NAMES.get(one, one) for one in named.split(",")}
    assert kinds == LISTED.keys() - EARLIER_KINDS - OF_DISRUPTION | {"limitranges"}


def test_the_list_of_kinds_is_complete() -> None:
    (line,) = [one for one in PAGES[1].read_text(encoding="utf-8").splitlines() if one.startswith("* **Kinds**: ")]

    named = re.findall(r"\w+", line.removeprefix("* **Kinds**: ").partition(".")[0])
    assert set(named) == {one.rpartition("/")[2] for one in Schemas.packaged().kinds} - NOT_IN_PLANS


def test_buffers_of_a_dump_are_planned_with_what_they_name(tmp_path: Path, catalogue: Path) -> None:
    spec = {"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    owner = {"apiVersion": "apps/v1", "controller": True, "uid": "1"}
    workload = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}

    def named(kind: str, name: str, version: str = "apps/v1", **more: object) -> dict[str, object]:
        owners = more.pop("owners", [])
        metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}, "ownerReferences": owners}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}

    buffers = (
        {"podTemplateRef": {"name": "spare"}},
        {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}},
    )
    dump = [
        pool(),
        node_class(),
        named("PodTemplate", "spare", "v1", template=template),
        named("Deployment", "web", spec=workload),
        named("ReplicaSet", "web-5d8f7c", spec=workload, owners=[{**owner, "kind": "Deployment", "name": "web"}]),
        named(
            "ReplicaSet",
            "web-6c9b4d",
            spec={**workload, "replicas": 0},
            owners=[{**owner, "kind": "Deployment", "name": "web"}],
        ),
        named("Pod", "web-5d8f7c-x", "v1", spec=spec, owners=[{**owner, "kind": "ReplicaSet", "name": "web-5d8f7c"}]),
        *(
            named("CapacityBuffer", f"of-{number}", "autoscaling.x-k8s.io/v1beta1", spec={**one, "replicas": 1})
            for number, one in enumerate(buffers)
        ),
    ]
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": dump}), encoding="utf-8")

    answer = joiner("plan", "-f", file, "--catalogue", catalogue, "-o", "json")

    assert (answer.exit_code, answer.json["pending"]) == (0, [])
    assert sorted(pod for node in answer.json["nodes"] for pod in node["pods"]) == [
        "default/capacity-buffer:of-0-0",
        "default/capacity-buffer:of-1-0",
        "default/web-5d8f7c-x",
    ]
