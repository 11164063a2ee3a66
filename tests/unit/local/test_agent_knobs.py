"""The node agent's knobs over HTTP, as the command turns them."""

import re

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


def test_a_failed_lookup_of_a_knob_is_no_missing_field_of_the_request(caplog: pytest.LogCaptureFixture) -> None:
    address = serve(
        {"faults": lambda asked: {"set": {"a": 1}[asked["name"]]}, "boot": lambda asked: {"all": sum(asked["name"])}}
    )

    for name, reason in (("faults", "KeyError: 'b'"), ("boot", "TypeError: unsupported operand")):
        with pytest.raises(KnobRefused, match=re.escape(reason)):
            turn_knob(address, name, {"name": "b"})
    assert [(one.levelname, bool(one.exc_info)) for one in caplog.records] == [("ERROR", True)] * 2


def test_a_field_that_is_missing_in_a_part_of_the_request_is_named() -> None:
    address = serve({"faults": lambda asked: {"first": asked["rules"][0]["how"]}})

    assert turn_knob(address, "faults", {"rules": [{"how": "slow"}]}) == {"first": "slow"}
    with pytest.raises(KnobRefused, match="how is missing: give it in the JSON object"):
        turn_knob(address, "faults", {"rules": [{}]})


def test_an_address_that_does_not_list_its_knobs_is_an_error() -> None:
    address = serve({})

    with pytest.raises(KnobRefused, match=r"does not list its knobs: nothing to read at /x/_local/"):
        knobs_of(f"{address}/x")
