"""A validated action is not begun if its nodes leave, or if an empty node of the pool leaves."""

from dataclasses import replace

from joiner.disruption.mark_objections import find_objection_to_mark
from tests.unit.lifecycle.joining_nodes import NOON, claim, node

CLAIM, NODE = claim(), node("node-1")
NAMES = (CLAIM.name,)


def test_an_action_whose_nodes_stay_begins() -> None:
    assert find_objection_to_mark(NAMES, [(CLAIM, NODE)], {"NodePool/other"}) == ""


def test_an_action_does_not_begin_without_all_of_its_nodes() -> None:
    deleted = replace(CLAIM, deletion=NOON)

    assert find_objection_to_mark(NAMES, [], ()) == "a claim or its node is gone"
    assert find_objection_to_mark(NAMES, [(deleted, NODE)], ()) == "node node-1 is being removed"


def test_an_empty_node_that_leaves_counts_against_the_budgets_of_its_pool() -> None:
    assert find_objection_to_mark(NAMES, [(CLAIM, NODE)], {CLAIM.pool_key}) == (
        f"an empty node of {CLAIM.pool_key} is about to be removed, which counts against the budgets"
    )
