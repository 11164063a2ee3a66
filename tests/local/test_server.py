"""The server process: one line when it is ready, no credentials of others, and nothing left behind."""

import json
import os
import signal
from pathlib import Path

import pytest

from joiner_local.knob_client import KnobRefused, KnobUnknown, knobs_of, turn_knob
from tests.local.running_aws import RunningAws, eventually, start_server, started_server

REPORT = """
import os

def handler(event, context):
    return {"pid": os.getpid(), "endpoint": os.environ["AWS_ENDPOINT_URL"], "profile": os.environ.get("AWS_PROFILE")}
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_it_prints_its_address_and_its_sandboxes_end_with_it(tmp_path: Path) -> None:
    foreign = os.environ | {"AWS_PROFILE": "production", "AWS_ENDPOINT_URL": "https://example.com"}
    server = start_server(tmp_path, foreign)
    assert server.stdout is not None
    try:
        line = server.stdout.readline()
        assert line.startswith("ready http://127.0.0.1:"), (tmp_path / "server.log").read_text()
        aws = RunningAws(line.split()[1], tmp_path)
        answer = aws.client("lambda").invoke(FunctionName=aws.function(REPORT))
        report = json.loads(answer["Payload"].read())
        assert (report["endpoint"], report["profile"]) == (aws.endpoint, None)
        assert alive(report["pid"])
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(10)
    assert server.stdout.read() == ""
    server.stdout.close()
    assert eventually(lambda: not alive(report["pid"]))


def test_a_knob_that_is_not_there_is_answered_with_those_that_are(local_aws: RunningAws) -> None:
    with pytest.raises(AssertionError, match=r'no knob missing", "knobs": .*"door".*"schedules/fire"'):
        local_aws.knob("missing")


def test_the_names_of_all_knobs_can_be_asked_for(local_aws: RunningAws) -> None:
    known = knobs_of(local_aws.endpoint)

    assert {"capacity", "door", "schedules/fire"} <= set(known)
    with pytest.raises(KnobUnknown, match=f"no knob missing; the knobs are {', '.join(known)}"):
        turn_knob(local_aws.endpoint, "missing", {})


def test_a_knob_that_refuses_gives_the_reason(local_aws: RunningAws) -> None:
    with pytest.raises(AssertionError, match="a fault has delay, status, body, hangUp; not wind"):
        local_aws.knob("door", fault={"wind": 7})


def test_no_knob_fails_on_a_strange_request(tmp_path: Path) -> None:
    """Every knob refuses an unknown field, without the name of a Python exception, and without status 500."""
    reasons = {}
    with started_server(tmp_path) as (aws, _):
        for name in knobs_of(aws.endpoint):
            with pytest.raises(KnobRefused) as refused:
                turn_knob(aws.endpoint, name, {"nonsense": [{}]})
            reasons[name] = str(refused.value)

    assert {name: text for name, text in reasons.items() if "Error" in text or "object has no" in text} == {}


@pytest.mark.parametrize(
    ("knob", "request_", "reason"),
    [
        ("instances", {"pendingSeconds": -1}, "pendingSeconds is -1: give a number of at least zero"),
        ("visibility", {"seconds": "soon"}, 'seconds is "soon": give a number of at least zero'),
        (
            "reservations",
            {"instanceType": "m5.large", "zone": "us-east-1a", "count": 1.5},
            "count is 1.5: give a whole",
        ),
        ("spot-role", {"exists": "no"}, 'exists is "no": give true or false'),
        ("interrupt", {}, "instanceId is missing: give it in the JSON object"),
        ("faults/guard", {"cluster": "nope", "pki": "."}, "there is no cluster nope: create it first"),
        ("faults/twice", {"machines": 5}, "machines is 5: give a list of texts"),
        ("faults/set", {"rules": [{"how": "refused"}]}, "caller is missing: give it in the JSON object"),
        ("faults/set", {"rules": 5}, "faults/set: rules is a list of JSON objects"),
        ("faults/stop", {"when": "entered", "machine": "m"}, "state is missing: give it in the JSON object"),
        ("reservations", {"instanceType": []}, r"instanceType is \[\]: give a text"),
        ("door", {"fault": 5}, "fault is 5: give a JSON object"),
    ],
)
def test_a_field_that_a_knob_cannot_read_is_named(
    knob: str, request_: dict[str, object], reason: str, local_aws: RunningAws
) -> None:
    with pytest.raises(KnobRefused, match=reason):
        turn_knob(local_aws.endpoint, knob, request_)


def test_cloudtrail_has_no_events_and_answers_at_once(local_aws: RunningAws) -> None:
    assert local_aws.client("cloudtrail").lookup_events()["Events"] == []
