"""SCALE UP, RETIRE, SWEEP and DISRUPT, and the functions besides, with a fault at every place of their scenarios.

Each time the cases of `FURTHER` are tried; `test_quick_crashes` tries those of `QUICK`. `make crash-test`
(`JOINER_CRASHES=night`) strikes half of all places in an hour, and the other half the day after. The number of the
night, which is printed, chooses what goes wrong there; `JOINER_CRASH_NIGHT` gives it again.

`JOINER_CRASHES=all` tries all of the table in some hours, `JOINER_CRASHES="Launch|lost"` the cases whose line matches,
`JOINER_CRASHES=Launch[20:]` those from the 20th on, `JOINER_CRASHES=night[:200]` the first 200 of a night, and
`JOINER_CRASHES=280:` all from the 280th on, counted separately for the scenarios that scale up and for the others.
`JOINER_CRASH_SCENARIOS="drift|failing"` records only the scenarios whose names match. The table of what was tried is
printed at the end of the run, with the seconds of a case.
"""

import os
import re
import time
from collections.abc import Callable

import pytest

from tests.conftest import SHOWN
from tests.e2e.crash.disturbed_stack import Rig
from tests.e2e.crash.fault_scenarios import FAULT_SCENARIOS
from tests.e2e.crash.fault_table import FaultCase, of_one_night
from tests.e2e.crash.fault_trial import UNMET, Trial
from tests.e2e.crash.fixed_cases import FURTHER

pytestmark = [pytest.mark.e2e, pytest.mark.restless("most executions here fail, as they should")]

DAY_SECONDS = 86_400
WANTED = os.environ.get("JOINER_CRASHES", "")
"""All scenarios are recorded for it in minutes, which is more than each time may take."""
NIGHT = int(os.environ.get("JOINER_CRASH_NIGHT") or time.time() // DAY_SECONDS)
RECORDED = os.environ.get("JOINER_CRASH_SCENARIOS", "")


def chosen(found: list[FaultCase]) -> list[FaultCase]:
    if part := re.fullmatch(r"(\d*):(\d*)", WANTED):
        return [
            case
            for up in (True, False)
            for case in [one for one in found if one.place.scenario.goes_up == up][_numbered(*part.groups())]
        ]
    part = re.fullmatch(r"(.*)\[(\d*):(\d*)\]", WANTED)
    wanted, numbered = (part[1], _numbered(part[2], part[3])) if part else (WANTED, slice(None))
    if wanted == "night":
        return of_one_night(found, NIGHT)[numbered]
    return [case for case in found if wanted == "all" or re.search(wanted, str(case))][numbered]


def _numbered(first: str, last: str) -> slice:
    return slice(int(first) if first else None, int(last) if last else None)


def test_after_any_crash_the_next_sweeps_make_all_well(
    rig: Rig, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    def say(line: str) -> None:
        if WANTED:
            with capsys.disabled():
                print(line, flush=True)

    began = time.time()
    cases = list(FURTHER)
    if WANTED:
        found = rig.record(each for each in FAULT_SCENARIOS if re.search(RECORDED, each.name))
        cases = chosen(found)
        say(f"{len(cases)} of {len(found)} cases, recorded in {time.time() - began:.0f} s; JOINER_CRASH_NIGHT={NIGHT}")
    trial, started = Trial(rig, say, len(cases)), time.monotonic()
    try:
        trial.run(cases)
    finally:  # an interrupted run of an hour prints what it found
        record_property(SHOWN, trial.describe(time.monotonic() - started))
    assert trial.wrong == {}
    assert trial.struck >= (1 - UNMET if WANTED else 1) * len(cases), trial.unmet
    if WANTED:
        unmet = [] if RECORDED else rig.not_struck()
        assert unmet == [], (
            f"the table strikes no such calls: {unmet}; bring them about on one of the scenarios, or name the reason"
        )
    assert rig.out_of_memory(began) == []
