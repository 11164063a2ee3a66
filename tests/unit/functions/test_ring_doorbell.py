"""The doorbell always allows the request, trusts nothing in it, and costs one conditional write."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.ring_doorbell import handler as ring_doorbell
from joiner.adapters.executions import Executions
from joiner.adapters.immediate_sweeps import ImmediateSweeps
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import STORED_AFTER, DoorbellSecrets
from tests.unit.functions.function_loading import FUNCTIONS
from tests.unit.functions.simulated_cluster import SimulatedCluster

NOW = datetime(2026, 11, 21, 5, 17, 28, tzinfo=UTC)
EVENT: Mapping[str, Any] = json.loads((FUNCTIONS / "ring_doorbell" / "event.json").read_text())
SECRET = "3f1c-secret"


class FakeScaleUpStarts:
    """Executions by name, as boto3's client starts them; task tokens that were answered."""

    def __init__(self) -> None:
        self.started: dict[str, datetime] = {}
        self.ended: set[str] = set()
        self.woken: list[str] = []
        self.sweeps: list[int] = []
        self.warm_ups = 0
        self.refuses_sweeps = False
        self.now = NOW

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:
        if stateMachineArn == "arn:sweep" and self.refuses_sweeps:
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": ""}}, "StartExecution")
        if stateMachineArn == "arn:sweep":  # several Express executions may have the same name
            asked = json.loads(input)
            if asked == {"warmUp": True}:
                self.warm_ups += 1
            else:
                self.sweeps.append(asked["after"])
            return {"startDate": self.now}
        if name in self.ended:
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists", "Message": name}}, "StartExecution")
        return {"startDate": self.started.setdefault(name, self.now)}

    def send_task_success(self, *, taskToken: str, output: str) -> None:
        assert output == "{}"
        if taskToken == "timed-out":
            raise ClientError({"Error": {"Code": "TaskTimedOut", "Message": ""}}, "SendTaskSuccess")
        self.woken.append(taskToken)


class Rung:
    """A doorbell over a ledger, and its effects."""

    def __init__(self, ledger: Ledger, secret: str = SECRET) -> None:
        module = ring_doorbell
        self.ledger = ledger
        self.states = FakeScaleUpStarts()
        self.reads = 0
        self.secrets = DoorbellSecrets(current=secret)
        machines = module.RungMachines(scale_up="arn:scale-up", sweep="arn:sweep")
        sweeps = ImmediateSweeps(ledger._client, ledger._table)
        self.doorbell = module.DoorbellRequests(
            module.CachedSecrets(self._read), ledger, sweeps, Executions(self.states), machines
        )

    def _read(self) -> DoorbellSecrets:
        self.reads += 1
        return self.secrets

    def ring(
        self, *, kind: str = "pods", token: str = SECRET, body: Any = None, after: timedelta = timedelta(), **more: Any
    ) -> Any:
        event = {**EVENT, "rawPath": f"/ring/{token}/{kind}", "pathParameters": {"token": token}, **more}
        if body is not None:
            event["body"] = body
        self.states.now = NOW + after
        return self.doorbell.answer(event, NOW + after)


@pytest.fixture
def rung(cluster: SimulatedCluster) -> Rung:
    return Rung(cluster.ledger)


def test_a_real_review_is_allowed_with_its_uid_and_starts_a_scale_up(rung: Rung) -> None:
    answer = rung.ring()

    assert answer["statusCode"] == 200
    assert json.loads(answer["body"]) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "2b6f9d1e-5a52-4f6e-8b1e-0a6f3f0d5c11", "allowed": True},
    }
    assert list(rung.states.started) == ["up-20261121T051728"]
    assert rung.ledger.lease().rings == 1


def test_a_burst_in_one_second_is_one_execution_and_every_ring_is_counted(rung: Rung) -> None:
    for milliseconds in range(0, 1000, 100):
        rung.ring(after=timedelta(milliseconds=milliseconds))

    assert list(rung.states.started) == ["up-20261121T051728"]
    assert rung.ledger.lease().rings == 10


def test_only_the_first_ring_of_a_new_environment_warms_up_functions(rung: Rung) -> None:
    rung.ring()
    started = dict(rung.states.started)
    rung.ring(after=timedelta(minutes=5))

    assert len(started) == 1 < len(rung.states.started)
    assert rung.states.warm_ups == 1


def test_a_warm_up_that_is_refused_leaves_the_ring_as_it_is(rung: Rung) -> None:
    rung.states.refuses_sweeps = True
    answer = rung.ring()

    assert json.loads(answer["body"])["response"]["allowed"] is True
    assert (len(rung.states.started), rung.states.warm_ups) == (1, 0)


def test_a_new_environment_whose_ring_a_running_scale_up_sees_warms_up_nothing(cluster: SimulatedCluster) -> None:
    cluster._take_lease("up-earlier")
    rung = Rung(cluster.ledger)
    rung.ring()

    assert (rung.states.started, rung.states.warm_ups) == ({}, 0)


def test_a_storm_of_pods_is_answered_and_counted_five_times_a_second(rung: Rung) -> None:
    answers = [rung.ring(after=timedelta(milliseconds=10 * number)) for number in range(300)]

    assert {answer["statusCode"] for answer in answers} == {200}
    assert all(json.loads(answer["body"])["response"]["allowed"] for answer in answers)
    assert rung.ledger.lease().rings == 10 + 14  # in 2.99 s


def test_a_storm_of_pods_hides_no_pool(rung: Rung) -> None:
    for _ in range(30):
        rung.ring(kind="pods")
    rung.ring(kind="pools")

    assert rung.ledger.lease().rings == 10 + 1


def test_after_a_quiet_time_single_pods_ring_again(rung: Rung) -> None:
    for _ in range(30):
        rung.ring()
    rung.ring(after=timedelta(seconds=1))

    assert rung.ledger.lease().rings == 10 + 1


def test_a_living_holder_will_see_the_ring_itself(rung: Rung, cluster: SimulatedCluster) -> None:
    cluster.now = NOW
    cluster._take_lease("up-earlier")
    rung.ring()

    assert rung.states.started == {}
    assert rung.ledger.lease().rings == 1


def test_a_holder_whose_time_is_up_does_not_keep_the_bell_quiet(rung: Rung, cluster: SimulatedCluster) -> None:
    cluster.now = NOW - timedelta(minutes=10)
    cluster._take_lease("up-earlier")
    rung.ring()

    assert list(rung.states.started) == ["up-20261121T051728"]


def test_an_execution_of_this_second_that_has_ended_does_not_swallow_the_ring(rung: Rung) -> None:
    rung.states.ended = {"up-20261121T051728", "up-20261121T051728-2"}
    rung.ring()

    assert list(rung.states.started) == ["up-20261121T051728-3"]


def test_an_execution_that_is_past_its_gathering_does_not_swallow_the_ring(rung: Rung) -> None:
    rung.states.started["up-20261121T051728"] = NOW - timedelta(seconds=2)
    rung.ring()

    assert list(rung.states.started) == ["up-20261121T051728", "up-20261121T051728-2"]


def test_a_corrected_pool_rings_like_a_pod(rung: Rung) -> None:
    rung.ring(kind="pools")

    assert len(rung.states.started) == 1


def test_a_pool_rings_before_it_is_stored_and_a_pod_after(rung: Rung) -> None:
    rung.ring(kind="pods")
    assert rung.ledger.lease().stored_at == 0

    rung.ring(kind="pools")
    rung.ring(kind="pods", after=timedelta(seconds=2))
    assert rung.ledger.lease().stored_at == NOW.timestamp() + 1


def test_a_node_wakes_the_executions_that_sleep_and_rings_those_that_look(
    rung: Rung, cluster: SimulatedCluster
) -> None:
    for name in ("asleep", "awake", "late"):
        rung.ledger.begin_wave(name, f"arn:{name}", ["claim"], now=10)
    for name, token in (("asleep", "token-1"), ("late", "timed-out")):
        cluster.machine._update("WAVE", name, "SET #token = :token", {":token": token}, names={"#token": "token"})

    assert rung.ring(kind="nodes")["statusCode"] == 200

    assert rung.states.woken == ["token-1"]
    assert rung.states.started == {}
    assert [wave.rings for wave in rung.ledger.waves()] == [1, 1, 1]


def test_every_node_of_a_burst_is_stored_when_those_who_were_rung_read_the_nodes(rung: Rung) -> None:
    rung.ledger.begin_wave("awake", "arn:awake", ["claim"], now=10)
    readings: list[float] = []
    for milliseconds in range(0, 2_000, 7):
        rung.ring(kind="nodes", after=timedelta(milliseconds=milliseconds))
        (wave,) = rung.ledger.waves()
        readings.append(wave.rung_at + STORED_AFTER - NOW.timestamp() - milliseconds / 1000)

    assert min(readings) > 0.3 - 0.007
    assert 9 <= wave.rings <= 10


def test_a_deletion_starts_a_sweep_that_looks_when_it_is_stored_and_wakes_who_waits_for_nodes(rung: Rung) -> None:
    rung.ledger.begin_wave("awake", "arn:awake", ["claim"], now=10)
    rung.ring(kind="deletions")

    assert (rung.states.sweeps, rung.states.started) == ([1], {})
    assert [wave.rings for wave in rung.ledger.waves()] == [1]
    assert rung.ledger.lease().rings == 0


def test_a_burst_of_deletions_starts_one_sweep(rung: Rung) -> None:
    for milliseconds in range(0, 500, 10):
        rung.ring(kind="deletions", after=timedelta(milliseconds=milliseconds))

    assert rung.states.sweeps == [1]


def test_no_deletion_of_a_long_series_is_lost_and_sweeps_stay_few(rung: Rung) -> None:
    """A survey follows every ring, after the deletion is stored."""
    rings = [milliseconds / 1000 for milliseconds in range(0, 20_000, 130)]
    looks: list[float] = []
    for at in rings:
        before = len(rung.states.sweeps)
        rung.ring(kind="deletions", after=timedelta(seconds=at))
        looks += [at + after for after in rung.states.sweeps[before:]]
        assert any(look >= at + 0.5 for look in looks), at

    assert 5 <= len(looks) <= 7


def test_after_a_quiet_time_a_deletion_is_seen_at_once_again(rung: Rung) -> None:
    for seconds in (0, 1, 60):
        rung.ring(kind="deletions", after=timedelta(seconds=seconds))

    assert rung.states.sweeps == [1, 4, 1]


@pytest.mark.parametrize("token", ["", "another-clusters", SECRET[:-1], SECRET + "x"])
def test_a_wrong_token_is_refused_and_rings_nothing(rung: Rung, token: str) -> None:
    assert rung.ring(token=token)["statusCode"] == 403
    assert rung.states.started == {}
    assert rung.ledger.lease().rings == 0


def test_before_there_is_a_secret_nobody_knows_it(cluster: SimulatedCluster) -> None:
    rung = Rung(cluster.ledger, secret="")

    assert rung.ring(token="")["statusCode"] == 403


def test_the_secrets_are_read_once_and_again_when_a_caller_knows_a_newer_one(rung: Rung) -> None:
    rung.ring()
    rung.ring()
    assert rung.reads == 1
    rung.secrets = DoorbellSecrets(current=SECRET, following="renewed")

    assert rung.ring(token="renewed", after=timedelta(seconds=4))["statusCode"] == 403
    assert rung.ring(token="renewed", after=timedelta(seconds=5))["statusCode"] == 200
    assert rung.reads == 2


def test_a_sandbox_that_lives_for_long_forgets_a_secret_that_was_replaced(rung: Rung) -> None:
    assert rung.ring()["statusCode"] == 200
    rung.secrets = DoorbellSecrets(current="renewed")

    assert rung.ring(after=timedelta(minutes=4))["statusCode"] == 200
    assert rung.ring(after=timedelta(minutes=5))["statusCode"] == 403
    assert rung.reads == 2


def test_the_previous_secret_is_valid_to_the_second(rung: Rung) -> None:
    until = NOW + timedelta(minutes=1)
    rung.secrets = DoorbellSecrets(current="renewed", previous=SECRET, previous_until=int(until.timestamp()))

    assert rung.ring(after=timedelta(seconds=59))["statusCode"] == 200
    assert rung.ring(after=timedelta(seconds=60))["statusCode"] == 403
    assert rung.ring(token="renewed", after=timedelta(seconds=60))["statusCode"] == 200


def test_secrets_show_themselves_in_no_text() -> None:
    assert "hidden" not in f"{DoorbellSecrets(current='hidden', following='hidden', previous='hidden')!r}"


@pytest.mark.parametrize("body", ["", "rubbish", "[]", "null", '{"request": 7}', "{"])
def test_rubbish_is_allowed_too(rung: Rung, body: str) -> None:
    answer = rung.ring(body=body)

    assert answer["statusCode"] == 200
    assert json.loads(answer["body"])["response"] == {"uid": "", "allowed": True}


def test_a_body_in_base64_is_read(rung: Rung) -> None:
    body = base64.b64encode(json.dumps({"request": {"uid": "u-1"}}).encode()).decode()

    assert json.loads(rung.ring(body=body, isBase64Encoded=True)["body"])["response"]["uid"] == "u-1"


def test_a_dry_run_rings_nothing(rung: Rung) -> None:
    assert rung.ring(body=json.dumps({"request": {"uid": "u-1", "dryRun": True}}))["statusCode"] == 200
    assert rung.ledger.lease().rings == 0


def test_whatever_fails_behind_the_door_the_event_is_allowed(rung: Rung) -> None:
    def broken(**_: Any) -> None:
        raise RuntimeError("Step Functions is down")

    rung.states.start_execution = broken  # type: ignore[assignment] # a service that fails

    answer = rung.ring()

    assert json.loads(answer["body"])["response"]["allowed"] is True
    assert rung.ledger.lease().rings == 1
