"""Executed sweeps that validate node classes: before the conditions of classes are written, and only if it is due."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.infra.scripted_machine import Line, Scripted, ScriptedAccount
from tests.infra.sweep_machine import ALL_THERE, NOTHING_SEEN, Swept, sweep_account
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local
DRIFT_DUE = {"due": True, "digest": "abc", "snapshot": "snapshots/s/1.json.gz"}
TO_VALIDATE = {"classes": "node-classes/s/1.json.gz", "ready": 1, "refused": 0, "validation": "validations/s/1.json.gz"}
AGAIN = {"classes": "node-classes/s/2.json.gz", "ready": 0, "refused": 1, "validation": ""}


@pytest.fixture(scope="module")
def account(local_aws: RunningAws) -> Iterator[ScriptedAccount[Scripted]]:
    with sweep_account(local_aws) as made:
        yield made


DESCRIBED = {**ALL_THERE, "described": "instances/s.json.gz"}


@pytest.mark.parametrize(
    ("tried", "states", "classes"),
    [
        ({"validated": 1, "refused": 1, "changed": 1}, ["Did a verdict change?", "Resolve node classes again"], AGAIN),
        ({"validated": 1, "refused": 0, "changed": 0}, ["Did a verdict change?"], TO_VALIDATE),
        ("Broken", [], TO_VALIDATE),
    ],
    ids=["changed", "as before", "no answer"],
)
def test_classes_are_validated_before_their_conditions_are_written_and_resolved_again_if_a_verdict_changed(
    account: ScriptedAccount[Scripted], tried: Line, states: Sequence[str], classes: Mapping[str, Any]
) -> None:
    swept = Swept(
        account,
        survey_cluster=[{**NOTHING_SEEN, "drift": DRIFT_DUE}],
        survey_instances=[DESCRIBED],
        resolve_node_classes=[TO_VALIDATE, AGAIN],
        launch_instances=[tried] * 4,
    )
    ended = swept.run()

    calls = swept.machines.calls
    assert calls["launch_instances"][0]["validate"] == "validations/s/1.json.gz"
    began = ended["states"].index("Validate node classes")
    assert ended["states"][began:] == [
        "Validate node classes",
        *states,
        "Detect drift",
        *ended["states"][began + len(states) + 2 :],
    ]
    assert calls["detect_drift"][0]["classes"] == classes["classes"]
    assert (ended["status"], ended["states"][-1]) == ("SUCCEEDED", "What was due was started")


def test_classes_whose_verdicts_are_fresh_are_not_validated(account: ScriptedAccount[Scripted]) -> None:
    swept = Swept(account, survey_cluster=[{**NOTHING_SEEN, "drift": DRIFT_DUE}], survey_instances=[DESCRIBED])
    ended = swept.run()

    assert "Validate node classes" not in ended["states"]
    assert "launch_instances" not in swept.machines.calls or not swept.machines.calls["launch_instances"]
