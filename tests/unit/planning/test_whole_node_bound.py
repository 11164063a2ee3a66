"""The bound of whole nodes gives up where an exact packing, or the divisions among zones, would take too long."""

from tests.unit.planning.checked_plans import cluster
from tests.unit.planning.drawn_clusters import planned, pods, spread


def test_a_batch_of_many_kinds_is_planned_although_its_parts_are_beyond_every_number() -> None:
    kinds = [pods(3, f"app-{number}", cpu=f"{100 + number}m", memory="64Mi") for number in range(600)]

    plan = planned(cluster([pod for kind in kinds for pod in kind]))

    assert plan.pods_placed == 1800
    assert 0 < plan.lower_bound_per_hour <= plan.price_per_hour


def test_many_pods_spread_over_many_zones_are_planned_although_their_divisions_are_beyond_counting() -> None:
    plan = planned(cluster(pods(1_900, cpu="900m", memory="1500Mi", topologySpreadConstraints=[spread()])))

    assert plan.pods_placed == 1_900
    assert 0 < plan.lower_bound_per_hour <= plan.price_per_hour
