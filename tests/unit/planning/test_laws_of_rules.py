"""The properties of plans in clusters with the rarer rules."""

import random

from hypothesis import given
from hypothesis import strategies as st

from joiner.planning import Snapshot
from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.planning.drawn_clusters import Json, planned
from tests.unit.planning.rich_clusters import RICH, rich_clusters

SLOW_IS_FINE = examples(30)


@SLOW_IS_FINE
@given(rich_clusters())
def test_no_plan_breaks_a_rarer_rule(cluster: dict[str, list[Json]]) -> None:
    plan = planned(cluster, RICH)

    assert check_plan(cluster, RICH, plan.to_json()) == []
    assert plan.lower_bound_per_hour <= plan.price_per_hour + 1e-9


@SLOW_IS_FINE
@given(rich_clusters(), st.randoms(use_true_random=False))
def test_order_does_not_matter_to_the_rarer_rules(cluster: dict[str, list[Json]], chance: random.Random) -> None:
    shuffled = {kind: chance.sample(items, len(items)) for kind, items in cluster.items()}

    assert planned(shuffled, RICH) == planned(cluster, RICH)


@SLOW_IS_FINE
@given(rich_clusters())
def test_what_is_kept_of_a_cluster_is_all_that_its_plan_needs(cluster: dict[str, list[Json]]) -> None:
    assert planned(Snapshot.trim(cluster), RICH) == planned(cluster, RICH)
