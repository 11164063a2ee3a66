"""Over random clusters: no node of bare metal or with accelerators is launched for pods that do not ask for it,
although these types are the cheapest; all other rules and limits hold, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.planning import PlanTolerances, Snapshot
from joiner.planning.planner import Planner, plan
from joiner.planning.relaxation.lower_bound import compute_lower_bound
from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, HOST, ZONES, Json, clusters
from tests.unit.planning.test_exotic_types import GPU, kind

TYPES: Mapping[str, Json] = {
    **CATALOGUE,
    "b.metal": kind("b.metal", 4, 16, 0.05, zones=ZONES),
    "p.large": kind("p.large", 4, 16, 0.09, gpus=2, zones=ZONES),
    "p.2xlarge": kind("p.2xlarge", 8, 32, 0.12, gpus=2, zones=ZONES[:2]),
}


def in_zones(one: Json, zones: Sequence[str]) -> Json:
    return {**one, "offerings": [each for each in one["offerings"] if each["zone"] in zones]}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@st.composite
def clusters_with_devices(draw: st.DrawFn) -> dict[str, list[Json]]:
    """Draw a cluster in which the pods of one app request a device."""
    lists, app = draw(clusters()), draw(st.sampled_from(["web", "api", "db", "none"]))
    for pod in lists["pods"]:
        if pod["metadata"]["labels"]["app"] == app and not pod["spec"].get("nodeName"):
            pod["spec"]["containers"][0]["resources"]["requests"][GPU] = "1"
    return lists


def requests_device(pod: Mapping[str, Any]) -> bool:
    return GPU in pod["spec"]["containers"][0]["resources"]["requests"]


@examples(60, repeated=30)
@given(clusters_with_devices(), st.booleans())
def test_each_node_with_devices_has_a_pod_that_requests_one(lists: dict[str, list[Json]], simplified: bool) -> None:
    made = plan(
        Snapshot.from_lists(lists),
        Catalogue.from_json(TYPES),
        classes=CLASSES,
        tolerances=PlanTolerances() if simplified else None,
    )

    assert check_plan(lists, TYPES, made.to_json()) == []
    assert made.lower_bound_per_hour <= made.price_per_hour + 1e-9
    asking = {f"default/{one['metadata']['name']}" for one in lists["pods"] if requests_device(one)}
    together = any(
        near["topologyKey"] == HOST
        for one in lists["pods"]
        for near in one["spec"].get("affinity", {}).get("podAffinity", {}).get(REQUIRED, ())
    )
    for node in made.nodes if not together else ():  # pods that must share a host may need the largest type
        assert node.instance_type != "b.metal"
        assert not node.instance_type.startswith("p.") or asking & set(node.pods)
        assert all(one.instance_type != "b.metal" for one in node.alternatives)


BY_ZONE: Mapping[str, Json] = {
    **{name: in_zones(one, ZONES[:2]) for name, one in CATALOGUE.items()},
    "b.metal": kind("b.metal", 4, 16, 0.3, zones=ZONES[1:]),
    "p.large": kind("p.large", 4, 16, 0.4, gpus=2, zones=ZONES),
}
"""No common type is offered in the last zone."""


@examples(60, repeated=30)
@given(clusters_with_devices())
def test_no_pod_stays_pending_that_has_a_place_if_all_types_are_open(lists: dict[str, list[Json]]) -> None:
    catalogue, snapshot = Catalogue.from_json(BY_ZONE), Snapshot.from_lists(lists)
    opened = replace(
        snapshot,
        pools=tuple(replace(one, planning=replace(one.planning, every_type=True)) for one in snapshot.pools),
    )

    made, without_rule = (plan(one, catalogue, classes=CLASSES) for one in (snapshot, opened))

    assert check_plan(lists, BY_ZONE, made.to_json()) == []
    assert len(made.pending) <= len(without_rule.pending)
    if not made.pending:
        state = Planner().state(snapshot, catalogue, classes=CLASSES)
        assert compute_lower_bound(state, limited=True).price_per_hour <= made.price_per_hour + 1e-9
