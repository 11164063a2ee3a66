"""The node agent's knobs over HTTP, as the command turns them."""

import pytest

from joiner_local.knob_client import KnobRefused, KnobUnknown, knobs_of, turn_knob
from joiner_local.node_agent.agent_knobs import serve


def refuse(asked: dict[str, object]) -> dict[str, object]:
    raise ValueError(f"seconds is {asked['seconds']}: give a number")


def test_a_knob_is_turned_refuses_or_is_not_there_and_all_names_can_be_asked_for() -> None:
    address = serve({"faults": lambda asked: {"set": asked["a"]}, "boot": refuse})

    assert knobs_of(address) == ["boot", "faults"]
    assert turn_knob(address, "faults", {"a": 1}) == {"set": 1}
    with pytest.raises(KnobRefused, match="seconds is x: give a number"):
        turn_knob(address, "boot", {"seconds": "x"})
    with pytest.raises(KnobUnknown, match="no knob missing; the knobs are boot, faults"):
        turn_knob(address, "missing", {})


def test_an_address_that_does_not_list_its_knobs_is_an_error() -> None:
    address = serve({})

    with pytest.raises(KnobRefused, match=r"does not list its knobs: nothing to read at /x/_local/"):
        knobs_of(f"{address}/x")
