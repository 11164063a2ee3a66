"""A plan considers a limited number of combinations of values of open labels: pods that need others stay pending with
that reason, and later plans reach them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from joiner.catalogue import Catalogue
from joiner.planning import Ceilings, Plan, Snapshot
from joiner.planning.model.considered_values import MOST_COMBINATIONS
from joiner.planning.output.explanation import MANY_COMBINATIONS
from joiner.planning.state.plan_state_construction import build_state
from tests.unit.planning.checked_plans import checked, cluster, why
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, Json, daemon_set, node_pool, pod
from tests.unit.planning.open_labels import joined, requiring, rule

TENANTS = node_pool(requirements=[rule("tenant", "Exists")])
TOO_MANY = MOST_COMBINATIONS + 20
RACKS = [f"r{number}" for number in range(40)]


def of_tenants(numbers: Iterable[int], name: str = "web", **fields: Any) -> list[Json]:
    return [pod(f"{name}-{number}", nodeSelector={"tenant": f"{name}{number:04}"}, **fields) for number in numbers]


def spread(how: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    one = {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": how, "labelSelector": selector}
    return {"topologySpreadConstraints": [one]}


def with_nodes(lists: Mapping[str, Sequence[Json]], plan: Plan) -> dict[str, Sequence[Json]]:
    """Return the cluster in which the nodes of the plan have joined and its pods run."""
    node_of = {name: node.name for node in plan.nodes for name in node.pods}
    pods = []
    for one in lists["pods"]:
        node = node_of.get(f"default/{one['metadata']['name']}")
        running = {"spec": {**one["spec"], "nodeName": node}, "status": {"phase": "Running"}}
        pods.append({**one, **running} if node else one)
    return {**joined(plan, lists), "pods": pods}


def considered(lists: Mapping[str, Sequence[Json]]) -> tuple[int, set[str]]:
    """Return the number of combinations, beside the first of each pool, and the pods that need others."""
    state = build_state(
        Snapshot.from_lists(lists),
        Catalogue.from_json(CATALOGUE),
        frozenset(),
        classes=CLASSES,
        ceilings=Ceilings(),
    )
    waiting = {group for one in state.offered_pools for group in one.waiting}
    left = {one.key for group in state.groups.pending if group.index in waiting for one in group.pods}
    return sum(len(one.variants) - 1 for one in state.offered_pools), left


def test_later_plans_reach_the_pods_that_one_plan_does_not_consider() -> None:
    lists = cluster(of_tenants(range(TOO_MANY)), TENANTS)
    plan = checked(lists)

    assert (len(plan.nodes), len(plan.pending)) == (MOST_COMBINATIONS, 20)
    assert why(plan) == [f"default: {MANY_COMBINATIONS}"]
    assert all(one.passing for each in plan.pending for one in each.reasons)

    later = checked(with_nodes(lists, plan))
    assert (len(later.nodes), later.pending) == (20, ())


def test_the_maximum_is_for_all_pools_together() -> None:
    pools = [node_pool(f"pool-{key}", requirements=[rule(key, "Exists")]) for key in ("tenant", "team")]
    teams = [pod(f"api-{n}", nodeSelector={"team": f"team{n}"}) for n in range(TOO_MANY // 2)]
    number, left = considered(cluster([*of_tenants(range(TOO_MANY // 2)), *teams], *pools))

    assert (number, len(left)) == (MOST_COMBINATIONS, 20)


def test_a_pool_whose_limits_allow_no_node_takes_no_combinations_from_another() -> None:
    requirements = [rule("tenant", "Exists")]
    full = node_pool("full", requirements=requirements, limits={"cpu": "0"}, weight=10)
    waiting = of_tenants(range(MOST_COMBINATIONS - 100))
    plan = checked(cluster(waiting, full, node_pool(requirements=requirements)))

    assert (len(plan.nodes), plan.pending) == (MOST_COMBINATIONS - 100, ())


def test_values_that_pods_require_come_before_those_over_which_they_spread() -> None:
    open_labels = [rule("tenant", "Exists"), rule("rack", "In", *RACKS)]
    lists = cluster(of_tenants(range(200), **spread("ScheduleAnyway")), node_pool(requirements=open_labels))

    assert checked(lists).pending == ()
    assert considered(lists) == (MOST_COMBINATIONS, set())


def test_higher_priorities_and_then_larger_workloads_come_first() -> None:
    many = [pod(f"many-{number}", nodeSelector={"tenant": "many"}) for number in range(2)]
    urgent = of_tenants([1], "urgent", priority=10)
    number, left = considered(cluster([*of_tenants(range(TOO_MANY), "few"), *many, *urgent], TENANTS))

    assert (number, len(left)) == (MOST_COMBINATIONS, 22)
    assert all(name.startswith("default/few-") for name in left)


def test_pods_that_are_pending_for_long_do_not_take_the_turns_of_newer_ones() -> None:
    """More pods than a plan considers may be beyond the limit of their pool, and no plan places them."""
    old, new = of_tenants(range(TOO_MANY), "old"), of_tenants(range(5), "new")
    for one, created in [
        *((each, "2026-11-21T12:00:00Z") for each in old),
        *((each, "2026-11-21T12:00:01Z") for each in new),
    ]:
        one["metadata"]["creationTimestamp"] = created
    _, left = considered(cluster([*old, *new], TENANTS))

    assert len(left) == 25 and all(name.startswith("default/old-") for name in left)


def test_the_pods_of_one_namespace_leave_values_for_those_of_others() -> None:
    _, left = considered(
        cluster([*of_tenants(range(TOO_MANY)), *of_tenants(range(5), "zoo", namespace="zoo")], TENANTS)
    )

    assert len(left) == 25 and all(name.startswith("default/") for name in left)


def test_pods_that_no_node_could_hold_take_no_values_from_others() -> None:
    huge = of_tenants(range(TOO_MANY), "huge", cpu="100")
    plan = checked(cluster([*huge, *of_tenants(range(5), "small")], TENANTS))

    assert sorted(name for one in plan.nodes for name in one.pods) == [f"default/small-{number}" for number in range(5)]
    assert all(str(reason).startswith("default: no instance type has enough") for reason in why(plan))


def test_pods_beyond_the_combinations_have_the_limit_of_their_pool_as_the_reason_beside_daemons_of_all_values() -> None:
    """Nodes of every considered value have the daemon, so their offers are not those of nodes without labels."""
    closed = node_pool(requirements=[rule("tenant", "Exists")], limits={"cpu": "0"})
    daemon = daemon_set("agent", **requiring(rule("tenant", "NotIn", "special")))
    plan = checked(cluster(of_tenants(range(TOO_MANY)), closed, daemonsets=[daemon]))

    reasons = [reason for one in plan.pending for reason in one.reasons]
    assert len(plan.pending) == TOO_MANY
    assert all(reason.over_limit and not reason.passing for reason in reasons)


def test_a_pod_that_its_other_rules_exclude_has_the_reason_of_these() -> None:
    excluded = of_tenants(range(TOO_MANY), "other", **requiring(rule("zone-of-house", "In", "attic")))
    plan = checked(cluster([*excluded, *of_tenants(range(5))], TENANTS))

    assert all("zone-of-house" in reason for reason in why(plan))


def test_the_order_of_the_pods_does_not_matter() -> None:
    waiting = of_tenants(range(TOO_MANY))

    assert considered(cluster(waiting, TENANTS)) == considered(cluster(waiting[::-1], TENANTS))
