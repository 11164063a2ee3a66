"""SCALE UP, RETIRE and SWEEP with something that goes wrong at every place of their way.

A seeded tenth of the table is tried each time, as far as half a minute goes; `JOINER_CRASHES=all` (`make crash-test`)
tries all of it, `JOINER_CRASHES=Launch` the cases that say so, and `JOINER_CRASHES=280:` those of the ways up, and of
the ways down, from the 280th on. The table of what was tried is printed.
"""

import os
import re
import time
from collections.abc import Iterator

import pytest

from tests.e2e.crash.rig import PACE, Rig
from tests.e2e.crash.table import Case, Verdict, a_tenth, show
from tests.e2e.crash.ways import RETIRE, SCALE_UP, WAYS
from tests.e2e.invariants import failed_executions
from tests.e2e.world import Actor

pytestmark = [pytest.mark.e2e, pytest.mark.restless("most executions here fail, as they should")]

SEED = 20261121
BUDGET = 30.0  # seconds of a tenth
ALL_WAYS = "JOINER_CRASHES" in os.environ
"""All are recorded in a minute, which is more than a tenth may take."""


@pytest.fixture(scope="module")
def rig(deployed: Actor) -> Iterator[Rig]:
    stack = deployed.world.stack
    deployed.knob("mishaps/guard", cluster=stack.cluster, pki=str(stack.root / "pki"))
    deployed.record_cluster()  # the API server has another address now
    deployed.knob("mishaps/pace", factor=PACE)
    stack.agent_knob("boot", {"seconds": 0.1, "readySeconds": 0.1, "goneSeconds": 0.1})
    # EC2 forgets what ended: a thousand crashes leave thousands of instances
    before = deployed.knob("instances")
    deployed.knob("instances", pendingSeconds=0.1, stoppingSeconds=0.1, shownSeconds=60)
    made = Rig.of(deployed)
    made.clean()
    yield made
    deployed.told |= failed_executions(deployed.world, ()).keys()  # they were made to fail
    deployed.knob("mishaps/pace", factor=1)
    deployed.knob("instances", **before)
    stack.agent_knob("boot", {"seconds": 1.0, "readySeconds": 0.5, "goneSeconds": 1.0})
    made.clean()


def chosen(found: list[Case]) -> list[Case]:
    wanted = os.environ.get("JOINER_CRASHES", "")
    if not wanted:
        return a_tenth(found, SEED)
    if part := re.fullmatch(r"(\d*):(\d*)", wanted):
        first, last = (int(number) if number else None for number in part.groups())
        return [
            case for up in (True, False) for case in [one for one in found if one.place.way.goes_up == up][first:last]
        ]
    return [case for case in found if wanted == "all" or wanted in f"{case.place.way}, {case.place}, {case.fault}"]


def test_two_sweeps_after_any_crash_all_is_well(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    tried = chosen(rig.record(WAYS if ALL_WAYS else (SCALE_UP, RETIRE)))
    if ALL_WAYS:
        assert rig.not_struck() == [], (
            "the table strikes no such call: bring it about on one of the ways, or name the reason in `grants`"
        )
    queues = {up: [case for case in tried if case.place.way.goes_up == up] for up in (True, False)}
    verdicts: dict[Case, Verdict] = {}
    end = time.monotonic() + (float("inf") if ALL_WAYS else BUDGET)
    try:
        while any(queues.values()) and time.monotonic() < end:
            for up in (True, False):  # each with a case of its own while there are any
                if not queues[up]:
                    rig.undisturbed(up=up)
                    continue
                case = queues[up].pop(0)
                verdict = verdicts[case] = rig.verdict(case)
                if verdict.wrong or ALL_WAYS:
                    with capsys.disabled():
                        told = "; ".join([str(verdict), *verdict.wrong])
                        print(
                            f"{len(verdicts)}/{len(tried)} {case.place.way}, {case.place}, {case.fault}: {told}",
                            flush=True,
                        )
                if verdict.wrong:
                    rig.clean()
                    if up:
                        rig.undisturbed(up=True)
    finally:  # whoever interrupts two hours of it sees what they were good for
        with capsys.disabled():
            print(show(verdicts))
    assert sum(verdict.struck for verdict in verdicts.values()) > len(verdicts) / 2, (
        "most of it was not met: the recorded run was another"
    )
    assert {
        f"{case.place.way}, {case.place}, {case.fault}": verdict.wrong
        for case, verdict in verdicts.items()
        if verdict.wrong
    } == {}
