"""What holds for every plan, whatever the world: looked at by the independent checker over worlds drawn at random."""

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joiner.planning import Plan
from tests.unit.planning.check_plan import check_plan
from tests.unit.planning.worlds import CATALOGUE, ZONES, Json, instance_type, planned, worlds

SLOW_IS_FINE = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@SLOW_IS_FINE
@given(worlds())
def test_no_plan_breaks_a_rule(world: dict[str, list[Json]]) -> None:
    assert check_plan(world, CATALOGUE, planned(world).to_json()) == []


@SLOW_IS_FINE
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_listed_does_not_matter(world: dict[str, list[Json]], chance: random.Random) -> None:
    shuffled = {kind: chance.sample(items, len(items)) for kind, items in world.items()}

    assert planned(shuffled) == planned(world)


@SLOW_IS_FINE
@given(worlds())
def test_no_plan_is_cheaper_than_its_bound(world: dict[str, list[Json]]) -> None:
    plan = planned(world)

    assert plan.lower_bound_per_hour <= plan.price_per_hour


@SLOW_IS_FINE
@given(worlds())
def test_the_same_pods_are_never_bounded_higher_when_a_type_is_added(world: dict[str, list[Json]]) -> None:
    richer = {**CATALOGUE, "x.large": instance_type("x.large", 2, 8, 0.06, zones=ZONES)}
    before, after = planned(world), planned(world, richer)

    if not before.existing and not after.existing and {one.pod for one in before.pending} == {one.pod for one in after.pending}:
        assert after.lower_bound_per_hour <= before.lower_bound_per_hour + 1e-9


@SLOW_IS_FINE
@given(worlds())
def test_a_plan_survives_being_written_down(world: dict[str, list[Json]]) -> None:
    plan = planned(world)

    assert Plan.from_json(plan.to_json()) == plan


@SLOW_IS_FINE
@given(worlds())
def test_a_plan_that_is_carried_out_leaves_nothing_to_do(world: dict[str, list[Json]]) -> None:
    """Its pods bound and its nodes there, the planner only repeats why the rest stays pending."""
    plan = planned(world)
    where = {name: node.name for node in plan.nodes for name in node.pods} | {name: one.node for one in plan.existing for name in one.pods}
    bound = [
        {**pod, "spec": {**pod["spec"], "nodeName": where[key]}, "status": {"phase": "Running"}} if key in where else pod
        for pod in world["pods"]
        for key in [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"]
    ]
    new = [
        {
            "metadata": {"name": one.name, "labels": {**one.labels, "kubernetes.io/hostname": one.name}},
            "spec": {"taints": [taint.to_kube() for taint in one.taints], "providerID": f"aws:///{one.zone}/i-{one.name}"},
            "status": {"capacity": one.capacity.to_kube(), "allocatable": one.allocatable.to_kube()},
        }
        for one in plan.nodes
    ]
    later = planned({**world, "pods": bound, "nodes": [*world["nodes"], *new]})

    assert {one.pod for one in later.pending} | {name for node in later.nodes for name in node.pods} | {
        name for one in later.existing for name in one.pods
    } == {one.pod for one in plan.pending}
