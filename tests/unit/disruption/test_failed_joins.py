"""Nodes that did not join, or did not become ready, hold the replacement of others of their pool."""

import pytest

from tests.unit.disruption.test_replacements import ago, going, machine, proposed


@pytest.mark.parametrize(("since", "held"), [(0.9, True), (1.1, False)])
def test_a_node_that_became_ready_too_late_holds_the_pool_for_an_hour(since: float, held: bool) -> None:
    claim, node = machine("late", age=24)
    registered = {"type": "Registered", "status": "True", "reason": "Registered", "lastTransitionTime": ago(23)}
    late = {
        "type": "Initialized",
        "status": "False",
        "reason": "InitializationTimeout",
        "lastTransitionTime": ago(since),
    }
    conditions = [claim["status"]["conditions"][0], registered, late]
    stuck = {**claim, "status": {**claim["status"], "conditions": conditions}}

    found = proposed((stuck, node), machine("a", drifted=1))

    assert (going(found) == []) == held
