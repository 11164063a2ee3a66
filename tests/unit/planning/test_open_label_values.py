"""Values for the labels that a pool leaves open: every pod that the pool admits gets a node, whatever it asks for."""

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given

from joiner.catalogue import Catalogue
from joiner.planning import Ceilings, Snapshot
from joiner.planning.state.plan_state_construction import build_state
from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.planning.checked_plans import checked, cluster, drawn, why
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, HOST, Json, affinity, near, node_pool, planned, pod
from tests.unit.planning.open_labels import KEYS, labelled_clusters, requiring, rule

EXAMPLES = (None, "a", "b", "c", "d", "0", "2", "3", "4", "5", "6", "7", "19", "20", "21")
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
        (rule("rank", "Exists"), [rule("rank", "Lt", "3")], 0, 2),
        (rule("rank", "Exists"), [rule("rank", "Lt", "1"), rule("rank", "NotIn", "0")], 0, 0),
        (rule("rank", "Exists"), [rule("rank", "Gt", str(2**63 - 2))], 2**63 - 1, None),
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


@pytest.mark.parametrize(
    "of_pod", [rule("rank", "Lt", "0"), rule("rank", "Gt", str(2**63 - 1)), rule("rank", "Lt", str(-(2**63)))], ids=str
)
def test_a_bound_that_no_label_value_meets_leaves_the_others_alone(of_pod: Json) -> None:
    waiting = [pod("web-0", **requiring(of_pod)), pod("api-0", cpu="100m")]
    plan = checked(cluster(waiting, node_pool(requirements=[rule("rank", "Exists")])))

    assert [one.pods for one in plan.nodes] == [("default/api-0",)]
    assert all("rank" in reason for reason in why(plan)) and len(plan.pending) == 1


def test_a_pool_whose_bound_no_label_value_meets_says_so() -> None:
    plan = checked(cluster([pod("web-0")], node_pool(requirements=[rule("rank", "Lt", "0")]), node_pool("other")))
    alone = checked(cluster([pod("web-0")], node_pool(requirements=[rule("rank", "Lt", "0")])))

    assert [one.pool for one in plan.nodes] == ["NodePool/other"]
    assert why(alone) == ["default: it requires rank Lt 0, and no label can have such a value"]


@pytest.mark.parametrize("count", [9, 20])
def test_spreads_over_two_open_labels_use_all_values_of_both(count: int) -> None:
    values = {key: [f"{key}-{number}" for number in range(count)] for key in ("rack", "shard")}
    spreads = [
        {
            "topologyKey": key,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "db"}},
        }
        for key in values
    ]
    waiting = [pod(f"db-{number}", app="db", topologySpreadConstraints=spreads) for number in range(count)]
    plan = checked(cluster(waiting, node_pool(requirements=[rule(key, "In", *each) for key, each in values.items()])))

    assert plan.pending == ()
    for key, each in values.items():
        assert sorted(one.labels[key] for one in plan.nodes) == sorted(each)


def test_pods_that_must_share_a_host_get_the_values_of_both_among_many() -> None:
    tenants = [
        pod(f"web-{number}", app=f"web-{number}", cpu="100m", nodeSelector={"tenant": f"t{number}"})
        for number in range(40)
    ]
    beside = affinity(podAffinity=[near(HOST, "web-5")])
    teams = [pod(f"api-{team}", cpu="100m", nodeSelector={"team": f"team-{team}"}) for team in range(40)]
    guest = pod("guest", cpu="100m", nodeSelector={"team": "blue"}, **beside)
    open_labels = [rule("tenant", "Exists"), rule("team", "Exists")]
    plan = checked(cluster([*tenants, *teams, guest], node_pool(requirements=open_labels)))

    assert plan.pending == ()
    (mine,) = [one for one in plan.nodes if "default/guest" in one.pods]
    assert "default/web-5" in mine.pods and mine.labels["tenant"] == "t5" and mine.labels["team"] == "blue"


def test_pods_that_must_share_a_host_through_others_get_the_values_of_all() -> None:
    unrelated = [
        pod(f"api-{key}-{n}", cpu="100m", nodeSelector={key: f"{key}{n + 10}"}) for key in "xyz" for n in range(6)
    ]
    chain = [
        pod("a", app="a", cpu="100m", nodeSelector={"x": "x5"}, **affinity(podAffinity=[near(HOST, "b")])),
        pod("b", app="b", cpu="100m", nodeSelector={"y": "y5"}, **affinity(podAffinity=[near(HOST, "c")])),
        pod("c", app="c", cpu="100m", nodeSelector={"z": "z5"}),
    ]
    plan = checked(cluster([*chain, *unrelated], node_pool(requirements=[rule(key, "Exists") for key in "xyz"])))

    assert plan.pending == ()
    (shared,) = [one for one in plan.nodes if "default/a" in one.pods]
    assert {"default/b", "default/c"} <= set(shared.pods)
    assert {key: shared.labels[key] for key in "xyz"} == {"x": "x5", "y": "y5", "z": "z5"}


def test_a_rule_between_pods_about_a_label_leaves_every_value_that_a_pod_requires() -> None:
    names = [f"t{number:03}" for number in range(270)]
    term = {"weight": 1, "podAffinityTerm": near("tenant", "web")}
    apart = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    waiting = [pod(f"web-{name}", nodeSelector={"tenant": name}) for name in names]
    plan = checked(
        cluster([*waiting, pod("api", app="api", affinity=apart)], node_pool(requirements=[rule("tenant", "Exists")]))
    )

    assert plan.pending == ()
    assert {one.labels["tenant"] for one in plan.nodes} >= set(names)


@pytest.mark.parametrize("required", [True, False], ids=["required", "preferred"])
def test_a_pod_that_allows_a_thousand_values_does_not_make_a_thousand_variants(required: bool) -> None:
    term = {"matchExpressions": [rule("tenant", "In", *(f"t{number}" for number in range(1000)))]}
    kind = "required" if required else "preferred"
    given = {"nodeSelectorTerms": [term]} if required else [{"weight": 1, "preference": term}]
    node_affinity = {"nodeAffinity": {f"{kind}DuringSchedulingIgnoredDuringExecution": given}}
    snapshot = cluster(
        [pod("web-0", affinity=node_affinity), pod("api-0", nodeSelector={"tenant": "t500"})],
        node_pool(requirements=[rule("tenant", "Exists")]),
    )

    plan = checked(snapshot)
    state = build_state(
        Snapshot.from_lists(snapshot),
        Catalogue.from_json(CATALOGUE),
        frozenset(),
        classes=CLASSES,
        ceilings=Ceilings(),
    )

    assert plan.pending == ()
    assert all(one.labels["tenant"] in term["matchExpressions"][0]["values"] for one in plan.nodes)
    assert len(state.offered_pools[0].variants) < 10


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
