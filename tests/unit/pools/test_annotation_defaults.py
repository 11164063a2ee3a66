"""Annotations of a pool with the defaults of docs/pool-annotations.md, written explicitly, are never reported."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joiner import names
from joiner.pools import read_manifests
from joiner.pools.disruption_settings import REPAIR_TOLERANCES
from joiner.pools.durations import format_duration

PAGE = Path(__file__).parents[3] / "docs" / "pool-annotations.md"
WITHOUT = ("none", "no limit", "the setting ")
"""How the column of the default begins for annotations whose absence no value means."""
TOLERANCES = ",".join(f"{condition}={format_duration(seconds)}" for condition, seconds in REPAIR_TOLERANCES.items())
ON_DEMAND = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]
NODE_POOLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "on-demand": {"node": {"requirements": ON_DEMAND}},
    "static": {"replicas": 1},
    "not consolidated": {"disruption": {"consolidateAfter": "Never"}},
    "only empty nodes": {"disruption": {"consolidationPolicy": "WhenEmpty"}},
    "never expires": {"node": {"expireAfter": "Never"}},
    "detects drift": {"annotations": {names.DRIFT: "detect"}},
    "not repaired": {"annotations": {names.NODE_REPAIR: "disabled"}},
}


def read_defaults() -> Iterator[tuple[str, str]]:
    """Yield each annotation of the table that has a default, with each text of it."""
    page = PAGE.read_text(encoding="utf-8")
    for name, default in re.findall(r"(?m)^\| `(joiner\.dev/\S+)` \| .+? \| (.+?) \|", page):
        if default.startswith("[below]"):
            yield name, TOLERANCES
        elif not default.startswith(WITHOUT):
            yield from ((name, text) for text in re.findall(r"`(.+?)`", default) or [default])


DEFAULTS = tuple(read_defaults())


def problems_of(name: str, text: str, pool: dict[str, Any]) -> list[str]:
    """Return what is reported on the annotations of a NodePool with one more annotation."""
    spec = {key: value for key, value in pool.items() if key not in ("annotations", "node")}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, **pool.get("node", {})}}
    metadata = {"name": "web", "annotations": {**pool.get("annotations", {}), name: text}}
    return reported({"kind": "NodePool", "metadata": metadata, "spec": {"template": template, **spec}})


def reported(manifest: dict[str, Any]) -> list[str]:
    return [one.message for one in read_manifests([manifest]).problems if one.field.startswith("metadata.annotations")]


def test_the_page_lists_every_annotation_of_a_pool_with_its_default() -> None:
    rows = re.findall(r"(?m)^\| `(joiner\.dev/\S+)` \|", PAGE.read_text(encoding="utf-8"))
    without = {names.BLAST_RADIUS, names.CAPACITY_MIX, names.MOST_EVICTIONS, names.NODE_OVERHEAD_PRICE, names.SCHEDULE}

    assert sorted(rows) == sorted(names.POOL_ANNOTATIONS)
    assert {name for name, _ in DEFAULTS} == set(names.POOL_ANNOTATIONS) - without
    assert {text for name, text in DEFAULTS if name == names.LEAST_NODE_AGE} == {"10m", "0s"}


@pytest.mark.parametrize("pool", NODE_POOLS.values(), ids=NODE_POOLS)
@pytest.mark.parametrize(("name", "text"), DEFAULTS)
def test_an_explicit_default_is_not_reported(pool: dict[str, Any], name: str, text: str) -> None:
    assert problems_of(name, text, pool) == []


@pytest.mark.parametrize(("name", "text"), DEFAULTS)
def test_an_explicit_default_is_not_reported_on_a_provisioner(name: str, text: str) -> None:
    metadata = {"name": "web", "annotations": {name: text}}

    assert reported({"kind": "Provisioner", "metadata": metadata, "spec": {"providerRef": {"name": "a"}}}) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (names.LEAST_SAVING, "0.00"),
        (names.LEAST_SAVING_PERCENT, "0%"),
        (names.WORKLOAD_COOL_DOWN, "0m"),
        (names.SPOT_TO_SPOT_TYPES, "015"),
        (names.DRIFT_CANARY_TIME, "600s"),
        (names.DRIFT_CANARY, "0%"),
        (names.NODE_REPAIR_TOLERANCES, "Ready=1800s"),
    ],
)
def test_another_text_of_the_default_is_not_reported_either(name: str, text: str) -> None:
    pools = ("static", "on-demand", "detects drift", "not repaired")

    assert [problems_of(name, text, NODE_POOLS[pool]) for pool in pools] == [[]] * len(pools)
