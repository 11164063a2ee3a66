"""Executed sweeps: the real definition on the local Step Functions, with functions that answer from a script."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from infra.sweep_states import WarmUp
from joiner.names import FOREIGN_DEFINITIONS, KARPENTER_RUNS
from tests.infra.scripted_machine import Line, Scripted, ScriptedAccount
from tests.infra.sweep_machine import (
    ALL_THERE,
    BARE,
    DISRUPTION_DUE,
    EMPTY,
    LOST,
    NOTHING_SEEN,
    Swept,
    sweep_account,
)
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local
SURVEYING = [
    "What started it?",
    "Take the turn",
    "Describe the cluster",
    "Read the pause",
    "Survey the cluster",
]
BOTH_LOOKS = ["Survey the instances", "Is Joiner paused?", "Decide what is due", "Is anything due?"]


@pytest.fixture(scope="module")
def account(local_aws: RunningAws) -> Iterator[ScriptedAccount[Scripted]]:
    with sweep_account(local_aws) as made:
        yield made


def test_a_sweep_that_finds_nothing_starts_nothing(account: ScriptedAccount[Scripted]) -> None:
    swept = Swept(account)
    ended = swept.run()

    assert ended["status"] == "SUCCEEDED", ended
    assert [state for state in ended["states"] if state in (*SURVEYING, *BOTH_LOOKS)] == [*SURVEYING, *BOTH_LOOKS]
    assert ended["states"][-1] == "Nothing is due"
    assert (swept.started, swept.machines.rings()) == ((0, 0, 0), 0)


WARMED = """
def handler(event, context):
    if event != {"warmUp": True}:
        raise ValueError(event)
    return {}
"""


def warming(account: ScriptedAccount[Scripted], code: str = WARMED) -> WarmUp:
    return WarmUp((account.aws.function(code),), every_minutes=1, sweep_minutes=1)


def test_a_sweep_that_has_given_its_turn_back_keeps_functions_warm_and_its_result_names_one_that_fails(
    account: ScriptedAccount[Scripted],
) -> None:
    good, bad = account.aws.function(WARMED), account.aws.function("handler = None")
    ended = Swept(account, WarmUp((good, bad, good), every_minutes=1, sweep_minutes=1)).run()

    warmed = [state for state in ended["states"] if state in ("Warm up one function", "It stays cold")]
    assert sorted(warmed) == ["It stays cold", *["Warm up one function"] * 3]
    assert ended["states"].index("Give the turn back") < ended["states"].index("Keep functions warm")
    assert (ended["status"], ended["states"][-1]) == ("SUCCEEDED", "Nothing is due")
    (sentence,) = json.loads(ended["output"])["coldFunctions"]
    assert sentence.startswith(f"{bad} is not kept warm: ")


def test_a_sweep_whose_functions_are_all_warm_names_none(account: ScriptedAccount[Scripted]) -> None:
    ended = Swept(account, warming(account)).run()

    assert "Keep functions warm" in ended["states"]
    assert json.loads(ended["output"])["coldFunctions"] == []


def test_a_sweep_that_a_deletion_or_another_sweep_started_warms_nothing(account: ScriptedAccount[Scripted]) -> None:
    ended = Swept(account, warming(account)).run(after=0)

    assert ended["states"][-3:] == ["Is a warm-up due?", "How did it end?", "Nothing is due"]


@pytest.mark.parametrize(
    ("scripts", "end"),
    [
        ({"survey_cluster": [{**NOTHING_SEEN, "refused": KARPENTER_RUNS}]}, "Refused: Karpenter is running"),
        ({"survey_cluster": ["Broken"]}, "The sweep failed"),
    ],
    ids=["refused", "failed"],
)
def test_a_sweep_that_is_refused_or_fails_warms_nothing(
    account: ScriptedAccount[Scripted], scripts: Mapping[str, Sequence[Line]], end: str
) -> None:
    ended = Swept(account, warming(account), **scripts).run()

    assert ended["states"][-3:] == ["Is a warm-up due?", "How did it end?", end]


def test_a_cold_doorbell_has_all_functions_but_the_first_initialized_and_nothing_else_done(
    account: ScriptedAccount[Scripted],
) -> None:
    first, good, bad = (account.aws.function(code) for code in ("handler = None", WARMED, "handler = None"))
    swept = Swept(account, WarmUp((first, good, bad), every_minutes=None, sweep_minutes=1))
    ended = swept.run(warmUp=True)

    assert (ended["states"][:2], ended["states"][-1]) == (
        ["What started it?", "Keep functions warm"],
        "Functions are warm",
    )
    assert ended["states"].count("Warm up one function") == 2
    (sentence,) = json.loads(ended["output"])["coldFunctions"]
    assert sentence.startswith(f"{bad} is not kept warm: ")
    assert (swept.started, swept.machines.rings()) == ((0, 0, 0), 0)


def test_no_sweep_warms_functions_if_the_settings_have_no_interval(account: ScriptedAccount[Scripted]) -> None:
    ended = Swept(account, WarmUp((account.aws.function(WARMED),), every_minutes=None, sweep_minutes=1)).run()

    assert ended["states"][-3:] == ["Is a warm-up due?", "How did it end?", "Nothing is due"]


def test_a_paused_sweep_warms_nothing(account: ScriptedAccount[Scripted]) -> None:
    swept = Swept(account, warming(account))
    swept.machines.pause("true")
    ended = swept.run()

    assert ended["states"][-3:] == ["Is a warm-up due?", "How did it end?", "Joiner is paused"]


def test_functions_are_warmed_up_by_the_first_scheduled_sweep_of_each_period() -> None:
    due = WarmUp(("a",), every_minutes=15, sweep_minutes=2).due

    assert due == (
        "$not($exists($states.context.Execution.Input.after)) "
        "and $floor($toMillis($states.context.Execution.StartTime) / 60000) % 15 < 2"
    )


def test_the_survey_of_instances_gets_the_result_of_the_survey_of_the_cluster(
    account: ScriptedAccount[Scripted],
) -> None:
    swept = Swept(account, survey_cluster=[{**NOTHING_SEEN, "retire": [EMPTY]}])
    swept.run()

    (heard,) = swept.machines.calls["survey_instances"]
    assert (heard["survey"], heard["retire"], heard["schema"]) == ("surveys/x.json.gz", [EMPTY], 1)
    assert swept.machines.calls["survey_cluster"][0]["execution"]["name"]


@pytest.mark.parametrize("claims", [[LOST], [EMPTY], [EMPTY, LOST, {**EMPTY, "claim": "c"}]])
def test_claims_to_retire_start_one_execution_of_each_machine_named_by_its_time(
    account: ScriptedAccount[Scripted], claims: list[Any]
) -> None:
    swept = Swept(account, survey_instances=[{**ALL_THERE, "retire": claims}])
    ended = swept.run()

    empty, others = ([each for each in claims if (each["reason"] == "empty") == is_empty] for is_empty in (True, False))
    for machine, its in ((swept.retire, others), (swept.empty, empty)):
        started = swept.machines.started(machine)
        assert list(started.values()) == ([{"reason": "sweep", "claims": its}] if its else [])
        assert all(re.fullmatch(r"retire-\d{8}T\d{6}-\d{3}-sweep", name) for name in started)
    assert (ended["status"], ended["states"][-1], swept.machines.rings()) == (
        "SUCCEEDED",
        "What was due was started",
        0,
    )
    others_due = dict.fromkeys(("scaleUp", "garbage", "rebuilding", "disruption", "drift", "anotherSweep"), False)
    assert json.loads(ended["output"])["due"] == {"emptiness": bool(empty), "retirement": bool(others), **others_due}


@pytest.mark.parametrize(
    ("later", "paused", "starts"), [(54, False, True), (0, False, False), (54, True, False)], ids=str
)
def test_another_sweep_follows_while_retirements_make_place_for_more_empty_nodes(
    account: ScriptedAccount[Scripted], later: int, paused: bool, starts: bool
) -> None:
    found = {**NOTHING_SEEN, "retire": [EMPTY], "emptyLater": later}
    swept = Swept(account, survey_cluster=[found], survey_instances=[{**ALL_THERE, "retire": [EMPTY]}])
    if paused:
        swept.machines.pause("true")
    ended = swept.run()

    started = swept.machines.started(swept.again)
    asked = {"after": 1, "reason": "more empty nodes than may leave at once"}
    assert list(started.values()) == ([asked] if starts else [])
    assert all(re.fullmatch(r"sweep-\d{8}T\d{6}-again", name) for name in started)
    assert (ended["status"], len(swept.machines.started(swept.empty))) == ("SUCCEEDED", 0 if paused else 1)
    assert ended["states"][-1] == ("Joiner is paused" if paused else "What was due was started")


DRIFT_DUE = {"due": True, "digest": "abc", "snapshot": "snapshots/s/1.json.gz"}


def test_drift_is_detected_with_what_both_surveys_stored_before_a_disruption_starts(
    account: ScriptedAccount[Scripted],
) -> None:
    swept = Swept(
        account,
        survey_cluster=[{**NOTHING_SEEN, "drift": DRIFT_DUE, "disruption": DISRUPTION_DUE}],
        survey_instances=[{**ALL_THERE, "described": "instances/s.json.gz"}],
    )
    ended = swept.run()

    calls = swept.machines.calls
    assert calls["survey_instances"][0]["drift"] is True
    resolving = calls["resolve_node_classes"][0]
    assert (resolving["snapshot"], resolving["every"]) == ("snapshots/s/1.json.gz", True)
    (heard,) = calls["detect_drift"]
    assert {name: heard[name] for name in ("classes", "instances", "digest")} == {
        "classes": "node-classes/s/1.json.gz",
        "instances": "instances/s.json.gz",
        "digest": "abc",
    }
    assert ended["states"].index("Detect drift") < ended["states"].index("Start a disruption")
    assert ended["states"][-1] == "What was due was started"


@pytest.mark.parametrize("broken", ["resolve_node_classes", "detect_drift"])
def test_a_detection_of_drift_that_fails_stops_nothing_else(account: ScriptedAccount[Scripted], broken: str) -> None:
    due = {**NOTHING_SEEN, "drift": DRIFT_DUE, "disruption": DISRUPTION_DUE}
    described = {**ALL_THERE, "described": "instances/s.json.gz"}
    ended = Swept(account, survey_cluster=[due], survey_instances=[described], **{broken: ["Broken"] * 4}).run()

    assert "Start a disruption" in ended["states"]


def test_a_later_sweep_detects_drift_if_the_instances_could_not_be_stored(account: ScriptedAccount[Scripted]) -> None:
    due = {**NOTHING_SEEN, "drift": DRIFT_DUE}
    swept = Swept(account, survey_cluster=[due], survey_instances=[{**ALL_THERE, "described": ""}])
    ended = swept.run()

    assert (ended["status"], ended["states"][-1]) == ("SUCCEEDED", "Nothing is due")
    assert "detect_drift" not in swept.machines.calls


@pytest.mark.parametrize(
    "found",
    [
        "pendingPods",
        "changedBuffers",
        "buffersToPlan",
        "missingReplicas",
        "unlaunchedClaims",
        "unwatchedClaims",
        "staleClaims",
        "closedNodes",
        "unsettledClasses",
    ],
)
def test_whatever_a_scale_up_has_to_see_to_rings_before_it_starts_one(
    account: ScriptedAccount[Scripted], found: str
) -> None:
    swept = Swept(account, survey_cluster=[{**NOTHING_SEEN, found: 1, "reasons": ["pod default/web waits for a node"]}])
    ended = swept.run()

    assert ended["states"].index("Ring") < ended["states"].index("Start a scale-up")
    ((name, request),) = swept.machines.started(swept.scale_up).items()
    assert re.fullmatch(r"up-\d{8}T\d{6}-sweep", name)
    assert request == {"reason": "sweep", "reasons": ["pod default/web waits for a node"]}
    assert swept.machines.rings() == 1


@pytest.mark.parametrize("found", [{"leaseBroken": True}, {"endedWaves": 1}, {"openLaunches": 2}])
def test_what_a_dead_scale_up_left_behind_starts_another(
    account: ScriptedAccount[Scripted], found: dict[str, Any]
) -> None:
    swept = Swept(account, survey_instances=[{**ALL_THERE, **found}])
    ended = swept.run()

    assert ended["status"] == "SUCCEEDED", ended
    assert len(swept.machines.started(swept.scale_up)) == 1


def test_garbage_is_collected_and_claims_are_rebuilt(account: ScriptedAccount[Scripted]) -> None:
    swept = Swept(account, survey_instances=[{**ALL_THERE, "garbage": ["i-x"], "rebuild": [BARE]}])
    ended = swept.run()

    assert ended["status"] == "SUCCEEDED", ended
    assert swept.machines.calls["collect_garbage"][0]["instances"] == ["i-x"]
    assert swept.machines.calls["rebuild_claims"][0]["rebuild"] == [BARE]
    assert swept.machines.started(swept.retire) == {}


def test_all_follow_ups_are_started_and_one_that_fails_prevents_no_other(account: ScriptedAccount[Scripted]) -> None:
    everything = {**ALL_THERE, "retire": [EMPTY, LOST], "garbage": ["i-x"], "rebuild": [BARE]}
    swept = Swept(
        account,
        survey_cluster=[{**NOTHING_SEEN, "pendingPods": 1}],
        survey_instances=[everything],
        collect_garbage=["Broken"],
    )
    ended = swept.run()

    assert swept.started == (1, 1, 1)
    assert len(swept.machines.calls["rebuild_claims"]) == 1
    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")  # the alarm counts it


@pytest.mark.parametrize("broken", ["empty", "retire"])
def test_a_retirement_that_cannot_be_started_prevents_no_other(account: ScriptedAccount[Scripted], broken: str) -> None:
    swept = Swept(
        account,
        survey_cluster=[{**NOTHING_SEEN, "pendingPods": 1}],
        survey_instances=[{**ALL_THERE, "retire": [EMPTY, LOST]}],
    )
    account.aws.client("stepfunctions").delete_state_machine(stateMachineArn=getattr(swept, broken))
    ended = swept.run()

    others = {swept.scale_up, swept.retire, swept.empty} - {getattr(swept, broken)}
    assert [len(swept.machines.started(machine)) for machine in others] == [1, 1]
    assert ended["status"] == "FAILED"


@pytest.mark.parametrize("broken", ["survey_cluster", "survey_instances"])
def test_a_survey_that_fails_starts_nothing(account: ScriptedAccount[Scripted], broken: str) -> None:
    due: dict[str, Sequence[Line]] = {"survey_cluster": [{**NOTHING_SEEN, "pendingPods": 1, "retire": [EMPTY]}]}
    swept = Swept(account, **{**due, broken: ["Broken"]})
    ended = swept.run()

    assert ended["status"] == "FAILED"
    assert (swept.started, swept.machines.rings()) == ((0, 0, 0), 0)


def test_a_paused_sweep_reads_and_starts_nothing(account: ScriptedAccount[Scripted]) -> None:
    swept = Swept(
        account,
        survey_cluster=[{**NOTHING_SEEN, "pendingPods": 1}],
        survey_instances=[{**ALL_THERE, "retire": [EMPTY, LOST]}],
    )
    swept.machines.pause("true")
    ended = swept.run()

    assert (ended["status"], ended["states"][-1]) == ("SUCCEEDED", "Joiner is paused")
    assert swept.started == (0, 0, 0)


@pytest.mark.parametrize(
    ("guard", "end"),
    [
        (KARPENTER_RUNS, "Refused: Karpenter is running"),
        (FOREIGN_DEFINITIONS, "Refused: the definitions are not Joiner's"),
    ],
)
def test_a_sweep_beside_another_autoscaler_does_not_read_ec2(
    account: ScriptedAccount[Scripted], guard: str, end: str
) -> None:
    swept = Swept(account, survey_cluster=[{"refused": guard, "reasons": []}])
    ended = swept.run()

    assert (ended["status"], ended["states"][-1]) == ("SUCCEEDED", end)
    assert "survey_instances" not in swept.machines.calls


def test_a_sweep_for_a_deletion_waits_until_it_is_stored(account: ScriptedAccount[Scripted]) -> None:
    swept = Swept(account)
    began = time.monotonic()
    ended = swept.run(after=1)

    assert ended["states"][:3] == ["What started it?", "Let the deletion be stored", "Take the turn"]
    assert time.monotonic() - began > 1
