"""Values for the labels that a pool leaves open: every pod that the pool admits gets a node, whatever it asks for."""

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given

from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.planning.checked_plans import checked, cluster, drawn, why
from tests.unit.planning.drawn_clusters import CATALOGUE, Json, node_pool, planned, pod
from tests.unit.planning.open_labels import KEYS, labelled_clusters, requiring, rule

EXAMPLES = (None, "a", "b", "c", "d", "-1", "2", "3", "4", "5", "6", "7", "19", "20", "21")
"""Values of a label, a missing one included, on both sides of every bound and value of `labelled_clusters`."""


def test_each_of_eighty_tenants_gets_nodes() -> None:
    names = [f"tenant-{number}" for number in range(80)]
    waiting = [pod(f"web-{name}", nodeSelector={"tenant": name}) for name in names]
    plan = checked(cluster(waiting, node_pool(requirements=[rule("tenant", "Exists")])))

    assert plan.pending == ()
    assert sorted(one.labels["tenant"] for one in plan.nodes) == sorted(names)


def test_pods_of_different_tenants_share_a_node_where_only_some_name_one() -> None:
    named = [pod(f"web-{number}", nodeSelector={"tenant": f"t{number}"}, cpu="100m") for number in range(70)]
    plan = checked(cluster([*named, pod("any", cpu="100m")], node_pool(requirements=[rule("tenant", "Exists")])))

    assert plan.pending == () and len(plan.nodes) == 70


def test_pods_with_values_of_three_open_labels_get_nodes() -> None:
    waiting = [
        pod(f"web-{key}-{number}", nodeSelector={key: f"{key}-{number}"}) for key in "xyz" for number in range(9)
    ]
    both = [pod(f"api-{number}", nodeSelector={key: f"{key}-{number}" for key in "xyz"}) for number in range(9)]
    plan = checked(cluster([*waiting, *both], node_pool(requirements=[rule(key, "Exists") for key in "xyz"])))

    assert plan.pending == ()


def test_a_spread_over_an_open_label_uses_all_its_values_beside_many_of_another() -> None:
    values = [f"shard-{number}" for number in range(5)]
    spread = {
        "topologyKey": "shard",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}},
    }
    spreading = [pod(f"db-{number}", app="db", topologySpreadConstraints=[spread]) for number in range(5)]
    tenants = [pod(f"web-{number}", nodeSelector={"tenant": f"t{number}"}) for number in range(40)]
    open_labels = [rule("shard", "In", *values), rule("tenant", "Exists")]
    plan = checked(cluster([*spreading, *tenants], node_pool(requirements=open_labels)))

    assert plan.pending == ()
    shards = [one.labels["shard"] for one in plan.nodes for name in one.pods if name.startswith("default/db-")]
    assert sorted(shards) == values


@pytest.mark.parametrize(
    ("of_pool", "of_pods", "low", "high"),
    [
        (rule("rank", "Exists"), [rule("rank", "Gt", "5")], 6, None),
        (rule("rank", "Exists"), [rule("rank", "Lt", "-3")], None, -4),
        (rule("rank", "Exists"), [rule("rank", "Gt", "5"), rule("rank", "Lt", "7")], 6, 6),
        (rule("rank", "Gt", "5"), [rule("rank", "Gt", "10")], 11, None),
        (rule("rank", "Lt", "100"), [rule("rank", "Gt", "10"), rule("rank", "NotIn", "11")], 12, 99),
        (rule("rank", "NotIn", "3"), [rule("rank", "Gt", "2"), rule("rank", "Lt", "5")], 4, 4),
    ],
    ids=str,
)
def test_the_bounds_of_pods_choose_an_integer(
    of_pool: Json, of_pods: Sequence[Json], low: int | None, high: int | None
) -> None:
    plan = checked(cluster([pod("web-0", **requiring(*of_pods))], node_pool(requirements=[of_pool])))

    (one,) = plan.nodes
    rank = int(one.labels["rank"])
    assert (low is None or low <= rank) and (high is None or rank <= high)


def test_bounds_that_overlap_choose_one_integer_for_both() -> None:
    waiting = [
        pod(f"web-{number}", cpu="100m", **requiring(bound))
        for number, bound in enumerate([rule("rank", "Gt", "5"), rule("rank", "Lt", "8")])
    ]
    plan = checked(cluster(waiting, node_pool(requirements=[rule("rank", "Exists")])))

    (one,) = plan.nodes
    assert int(one.labels["rank"]) in (6, 7)


def test_bounds_that_exclude_each_other_choose_a_value_each() -> None:
    waiting = [
        pod(f"web-{number}", cpu="100m", **requiring(bound))
        for number, bound in enumerate([rule("rank", "Gt", "8"), rule("rank", "Lt", "5")])
    ]
    plan = checked(cluster(waiting, node_pool(requirements=[rule("rank", "Exists")])))

    assert sorted(int(one.labels["rank"]) > 8 for one in plan.nodes) == [False, True]


def test_a_pod_that_wants_a_label_gets_one_where_the_pool_allows_nodes_without_it() -> None:
    wanting, other = pod("web-0", **requiring(rule("team", "Exists"))), pod("api-0")
    plan = checked(cluster([wanting, other], node_pool(requirements=[rule("team", "NotIn", "c")])))

    assert plan.pending == ()
    (mine,) = [one for one in plan.nodes if "default/web-0" in one.pods]
    assert mine.labels["team"] != "c"


def test_a_bound_that_the_pool_excludes_is_named() -> None:
    plan = checked(
        cluster([pod("web-0", **requiring(rule("rank", "Gt", "5")))], node_pool(requirements=[rule("rank", "Lt", "5")]))
    )

    assert drawn(plan) == []
    assert why(plan) and all("rank" in reason and "Gt 5" in reason for reason in why(plan))


def meets(value: str | None, one: Json) -> bool:
    """Return whether a node with this value of the rule's label meets it, by the documentation of Kubernetes."""
    operator, values = one["operator"], one.get("values", [])
    if operator in ("Gt", "Lt"):
        bound = int(values[0])
        number = int(value) if value is not None and value.lstrip("-").isdigit() else None
        return number is not None and (number > bound if operator == "Gt" else number < bound)
    if operator in ("Exists", "DoesNotExist"):
        return bool((value is not None) == (operator == "Exists"))
    return bool((value in values) == (operator == "In"))


def rules_of(waiting: Json) -> list[Json]:
    affinity = waiting["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [{}])
    return list(terms[0].get("matchExpressions", []))


def admitted(waiting: Json, pool: Json) -> Iterator[dict[str, str | None]]:
    """Yield the labels of nodes that the pool may have and the pod accepts."""
    rules = [*rules_of(waiting), *pool["spec"]["template"]["spec"]["requirements"]]
    for values in product(EXAMPLES, repeat=len(KEYS)):
        labels = dict(zip(KEYS, values, strict=True))
        asked = {one["key"] for one in pool["spec"]["template"]["spec"]["requirements"]}
        if all(meets(labels[one["key"]], one) for one in rules) and all(
            labels[key] is None for key in KEYS if key not in asked
        ):
            yield labels


@examples(60, repeated=40)
@given(labelled_clusters())
def test_no_pod_is_left_that_some_values_admit(lists: dict[str, list[Json]]) -> None:
    plan = planned(lists)
    left = {one.pod for one in plan.pending}

    assert check_plan(lists, CATALOGUE, plan.to_json()) == []
    for waiting in lists["pods"]:
        found = [labels for pool in lists["nodepools"] for labels in admitted(waiting, pool)]
        assert (f"default/{waiting['metadata']['name']}" in left) == (not found), found[:3]
