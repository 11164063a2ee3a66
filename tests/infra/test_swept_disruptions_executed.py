"""Executed sweeps that start a disruption, or must not."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.infra.scripted_machine import Scripted, ScriptedAccount
from tests.infra.sweep_machine import ALL_THERE, DISRUPTION_DUE, NOTHING_SEEN, RESTING, Swept, sweep_account
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local


@pytest.fixture(scope="module")
def account(local_aws: RunningAws) -> Iterator[ScriptedAccount[Scripted]]:
    with sweep_account(local_aws) as made:
        yield made


RUNNING = {**RESTING, "executions": ["arn:1"]}
STALE = {**RESTING, "staleMarks": 1}
LEFT = {"leftDisruptions": ["arn:1"]}


@pytest.mark.parametrize(
    ("cluster", "instances", "proposes"),
    [
        ({"disruption": DISRUPTION_DUE}, {}, True),
        ({"disruption": DISRUPTION_DUE}, {"disrupting": True}, None),
        ({"disruption": DISRUPTION_DUE, "pendingPods": 1}, {}, None),
        ({"disruption": DISRUPTION_DUE, "changedBuffers": 1}, {}, None),
        ({"disruption": DISRUPTION_DUE, "buffersToPlan": 1}, {}, True),
        ({"disruption": DISRUPTION_DUE}, {"openLaunches": 1}, None),
        ({"disruption": RUNNING}, LEFT, False),
        ({"disruption": STALE}, {}, False),
        ({"disruption": RUNNING, "pendingPods": 1}, LEFT, False),
        ({"disruption": {**RUNNING, "due": True}}, LEFT, True),
        ({"disruption": {**RUNNING, "due": True}, "pendingPods": 1}, LEFT, False),
        ({"disruption": RUNNING}, {}, None),
        ({"disruption": RUNNING}, {**LEFT, "disrupting": True}, None),
    ],
    ids=[
        "due",
        "one runs",
        "pods wait",
        "buffers changed",
        "nodes or pods changed beside buffers",
        "a launch is open",
        "left over",
        "stale marks",
        "left over while pods wait",
        "left over and due",
        "left over and due while pods wait",
        "attended",
        "left over while another has the turn",
    ],
)
def test_a_disruption_starts_when_nothing_more_urgent_is_under_way(
    account: ScriptedAccount[Scripted],
    cluster: Mapping[str, Any],
    instances: Mapping[str, Any],
    proposes: bool | None,
) -> None:
    swept = Swept(account, survey_cluster=[{**NOTHING_SEEN, **cluster}], survey_instances=[{**ALL_THERE, **instances}])
    ended = swept.run()

    started = swept.machines.started(swept.disrupt)
    left, stale = instances.get("leftDisruptions", []), cluster["disruption"]["staleMarks"]
    asked = {"digest": "abc", "left": left, "staleMarks": stale, "due": proposes}
    assert list(started.values()) == ([asked] if proposes is not None else [])
    [surveyed] = swept.machines.calls["survey_instances"]
    assert surveyed["disruptions"] == cluster["disruption"]["executions"]
    assert all(re.fullmatch(r"disrupt-\d{8}T\d{6}-sweep", name) for name in started)
    assert ended["status"] == "SUCCEEDED"
