"""The record of the memory that nodes really have, which the next refresh of the catalogue reads."""

from joiner.adapters import sweep_documents
from joiner.adapters.store import Store
from joiner.catalogue.observed_memory import memory_of_nodes, note_observed_memory
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey


def record_node_memory(survey: ClusterSurvey, store: Store) -> None:
    """Store the least memory by instance type and image if the nodes of this survey change it."""
    nodes = survey.node_of()
    seen = memory_of_nodes((claim, nodes[claim.key]) for claim in survey.claims if claim.key in nodes)
    if not seen:
        return
    before = sweep_documents.get_observed_memory(store)
    after = note_observed_memory(before, seen, survey.now)
    if after != before:
        sweep_documents.put_observed_memory(store, after)
