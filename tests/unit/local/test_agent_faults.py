"""Faults that a test requests of the node agent, and the instances to which they apply."""

import pytest

from joiner_local.node_agent.agent_faults import NodeFault, NodeFaults

M5 = ("m5.large", "us-east-1a", "i-1")
C5 = ("c5.large", "us-east-1b", "i-2")


def test_a_rule_applies_to_the_instances_that_it_names() -> None:
    faults = NodeFaults()
    faults.turn({"fault": "never-boots", "instanceType": "m5.large"})
    faults.turn({"fault": "silent", "zone": "us-east-1b"})

    assert (faults.of(*M5).kind, faults.of(*C5).kind, faults.of("c5.large", "us-east-1c", "i-3")) == (
        "never-boots",
        "silent",
        NodeFault(),
    )


def test_every_third_is_struck() -> None:
    faults = NodeFaults()
    faults.turn({"fault": "stops-while-booting", "every": 3})

    assert [faults.of(*M5).kind for _ in range(7)] == ["", "", "stops-while-booting", "", "", "stops-while-booting", ""]


def test_a_rule_is_taken_back_by_the_same_choice() -> None:
    faults = NodeFaults()
    faults.turn({"fault": "slow", "instanceType": "m5.large", "factor": 4})
    assert faults.of(*M5) == NodeFault("slow", 4.0)

    faults.turn({"fault": "none", "instanceType": "m5.large"})
    assert faults.of(*M5) == NodeFault()


def test_all_rules_are_taken_back_at_once() -> None:
    faults = NodeFaults()
    faults.turn({"fault": "silent"})
    faults.turn({"clear": True})

    assert faults.of(*M5) == NodeFault()


@pytest.mark.parametrize("asked", [{"fault": "sulks"}, {"fault": "slow", "region": "x"}, {"fault": "slow", "every": 0}])
def test_a_fault_that_there_is_not_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"sulks|region|every"):
        NodeFaults().turn(asked)
