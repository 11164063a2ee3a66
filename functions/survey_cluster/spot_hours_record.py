"""The record of how long spot nodes of each type and zone are there, which the next refresh of the catalogue reads."""

from collections import Counter

from joiner import names
from joiner.adapters import spot_history
from joiner.adapters.store import Store
from joiner.catalogue.interruption_history import SpotPlace
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey


def record_spot_hours(survey: ClusterSurvey, store: Store) -> None:
    """Add the spot nodes of this survey to the node-hours, once an hour."""
    nodes = survey.node_of()
    running: Counter[SpotPlace] = Counter()
    for claim in survey.claims:
        node = nodes.get(claim.key)
        if node is not None and node.labels.get(names.CAPACITY_TYPE) == names.SPOT:
            running[node.labels.get(names.INSTANCE_TYPE, ""), node.labels.get(names.ZONE, "")] += 1
    before = spot_history.get_spot_hours(store)
    after = before.note(running, survey.at)
    if after is not before:
        spot_history.put_spot_hours(store, after)
