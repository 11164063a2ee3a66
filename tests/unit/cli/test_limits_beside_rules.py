"""A limit is the only reason of a pending pod if it would have a place without the limit; otherwise the rule between
pods that excludes it is named, too."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.command_runs import joiner, pod, pool, write
from tests.unit.cli.remedy_runs import is_placed, only

TYPES = only("node.kubernetes.io/instance-type", "m5.large", "m5.xlarge")
ONE_NODE = pool(requirements=[TYPES], limits={"nodes": "1"})
LIMIT = (
    "all available instance types exceed limits for nodepool: limit nodes 1 of NodePool/default: 1 used (1 of it by "
    "this plan), one more is needed; raise spec.limits.nodes or free nodes"
)
TAKEN = {**pod("lo", cpu="1500m"), "metadata": {"name": "lo", "labels": {"app": "lo"}}}


def beside(app: str, kind: str = "podAffinity") -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def reason(folder: Path, catalogue: Path, *manifests: Mapping[str, Any]) -> str:
    found = joiner("plan", "-f", write(folder, *manifests), "--catalogue", catalogue, "-o", "json").json
    (left,) = found["pending"]
    text: str = left["reasons"][0]["reason"]
    return text


def test_a_limit_is_named_after_an_affinity_that_excludes_new_nodes(tmp_path: Path, catalogue: Path) -> None:
    """Both pods do not fit on one node, with or without the limit."""
    large = pod("hi", cpu="3", affinity=beside("lo"))
    rule = "unsatisfiable topology constraint: its affinity on kubernetes.io/hostname keeps it out of every new node"

    assert reason(tmp_path, catalogue, ONE_NODE, TAKEN, large) == f"{rule}, and {LIMIT}"
    assert reason(tmp_path, catalogue, pool(requirements=[TYPES]), TAKEN, large) == rule


@pytest.mark.parametrize("rules", [{}, {"affinity": beside("lo", "podAntiAffinity")}], ids=["none", "met elsewhere"])
def test_a_limit_is_the_only_reason_if_a_new_node_could_hold_the_pod(
    rules: dict[str, Any], tmp_path: Path, catalogue: Path
) -> None:
    large = pod("hi", cpu="3", **rules)

    assert reason(tmp_path, catalogue, ONE_NODE, TAKEN, large) == LIMIT
    assert is_placed(tmp_path, catalogue, pool(requirements=[TYPES]), TAKEN, large)
