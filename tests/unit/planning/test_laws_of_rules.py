"""The properties of plans in clusters with the rarer rules."""

import random

from hypothesis import given
from hypothesis import strategies as st

from joiner.planning import Snapshot
from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.planning.drawn_clusters import Json, planned
from tests.unit.planning.rich_clusters import RICH, rich_clusters

SLOW_IS_FINE = examples(30, repeated=20)


@SLOW_IS_FINE
@given(rich_clusters(), st.randoms(use_true_random=False))
def test_a_plan_keeps_the_rarer_rules_and_depends_on_no_order_and_on_no_field_that_is_trimmed(
    cluster: dict[str, list[Json]], chance: random.Random
) -> None:
    plan = planned(cluster, RICH)
    shuffled = {kind: chance.sample(items, len(items)) for kind, items in cluster.items()}

    assert check_plan(cluster, RICH, plan.to_json()) == []
    assert plan.lower_bound_per_hour <= plan.price_per_hour + 1e-9
    assert planned(shuffled, RICH) == plan
    assert planned(Snapshot.trim(cluster), RICH) == plan
