"""Throttled and slow AWS services, with the clients of the functions: what botocore retries succeeds, and the rest is
an error that the state machine retries.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError

from joiner.adapters import environment
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import Ec2Error
from joiner.adapters.ledger import Ledger
from joiner.adapters.store import Store
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

PASS = {"QueryLanguage": "JSONata", "StartAt": "Done", "States": {"Done": {"Type": "Pass", "End": True}}}
RETRIED = environment._CALLS.retries["max_attempts"]  # type: ignore[attr-defined]  # set when it is made
"""How often botocore sends a call again."""


@dataclass
class ThrottledRole:
    """A role whose calls can fail, with clients as the functions have them."""

    aws: RunningAws
    name: str
    session: Any

    def client(self, service: str, **changed: Any) -> Any:
        config = environment._CALLS.merge(Config(s3={"addressing_style": "path"}, **changed))
        return self.session.client(service, endpoint_url=self.aws.endpoint, config=config)

    def fails(self, *rules: dict[str, Any]) -> None:
        self.aws.knob("faults/set", rules=[{"caller": self.name, **rule} for rule in rules])

    def struck(self) -> list[int]:
        return list(self.aws.knob("faults/set")["each"])


@pytest.fixture
def caller(local_aws: RunningAws) -> Iterator[ThrottledRole]:
    name, role = local_aws.fresh("machine"), local_aws.role("states.amazonaws.com")
    local_aws.client("stepfunctions").create_state_machine(name=name, definition=json.dumps(PASS), roleArn=role)
    lent = local_aws.client("sts").assume_role(RoleArn=role, RoleSessionName="states")["Credentials"]
    session = boto3.Session(lent["AccessKeyId"], lent["SecretAccessKey"], lent["SessionToken"], region_name="us-east-1")
    yield ThrottledRole(local_aws, name, session)
    local_aws.knob("faults/set")


def throttled(call: str, times: int | None = 2) -> dict[str, Any]:
    return {"call": call, "how": "throttled", "times": times}


def test_a_ring_is_counted_once_although_the_table_is_throttled(caller: ThrottledRole) -> None:
    ledger = Ledger(caller.client("dynamodb"), caller.aws.table("memory"))
    caller.fails(throttled("dynamodb UpdateItem LEASE"))

    assert ledger.ring().rings == 1

    assert caller.struck() == [2]


def test_lists_of_a_throttled_table_are_complete(caller: ThrottledRole) -> None:
    table = caller.aws.table("memory")
    whole = Ledger(caller.aws.client("dynamodb"), table)
    for number in range(3):
        whole.begin_wave(f"wave-{number}", f"arn:{number}", ["claim"], now=10)
        whole.pair(f"i-{number}", f"claim-{number}", "l-1")
    caller.fails(throttled("dynamodb Query WAVE"), throttled("dynamodb BatchGetItem *"))
    ledger = Ledger(caller.client("dynamodb"), table)

    assert ledger.waves() == whole.waves() != []
    assert ledger.pairings(["i-0", "i-1", "i-2"]) == whole.pairings(["i-0", "i-1", "i-2"]) != {}

    assert caller.struck() == [2, 2]


def test_a_table_that_stays_throttled_is_an_error_after_the_retries(caller: ThrottledRole) -> None:
    ledger = Ledger(caller.client("dynamodb"), caller.aws.table("memory"))
    caller.fails(throttled("dynamodb UpdateItem LEASE", times=None))

    with pytest.raises(ClientError, match="ThrottlingException"):
        ledger.ring()

    assert caller.struck() == [RETRIED + 1]


def test_a_document_is_stored_and_read_although_the_bucket_slows_down(caller: ThrottledRole) -> None:
    s3, bucket = caller.aws.client("s3"), caller.aws.fresh("bucket")
    s3.create_bucket(Bucket=bucket)
    store = Store(caller.client("s3"), bucket)
    caller.fails(throttled("s3 PUT plans"), throttled("s3 GET plans"))

    store.put("plans/up-1/1.json.gz", {"nodes": [1, 2]})

    assert store.get("plans/up-1/1.json.gz") == {"nodes": [1, 2]}
    assert caller.struck() == [2, 2]


def test_a_request_limit_of_ec2_is_an_error_of_its_own(caller: ThrottledRole) -> None:
    caller.fails(throttled("ec2 DescribeSubnets", times=None))

    with pytest.raises(Ec2Error, match="RequestLimitExceeded") as refused:
        Ec2(caller.client("ec2")).subnets([])

    assert refused.value.throttled
    assert caller.struck() == [RETRIED + 1]


def test_a_slow_answer_is_awaited_and_one_beyond_the_read_timeout_is_asked_for_again(caller: ThrottledRole) -> None:
    ledger = Ledger(caller.client("dynamodb"), caller.aws.table("memory"))
    caller.fails({"call": "dynamodb UpdateItem LEASE", "how": "slow", "after": 1.0})
    began = time.monotonic()

    assert ledger.ring().rings == 1
    assert time.monotonic() - began >= 1.0

    impatient = Ledger(caller.client("dynamodb", read_timeout=1, retries={"total_max_attempts": 1}), ledger._table)
    caller.fails({"call": "dynamodb Query WAVE", "how": "slow", "after": 3.0})
    with pytest.raises(ReadTimeoutError):
        impatient.waves()
    assert impatient.waves() == []


def test_two_faults_at_once_are_both_retried(caller: ThrottledRole) -> None:
    """A write is throttled, then its answer is lost, while the bucket slows down."""
    s3, bucket = caller.aws.client("s3"), caller.aws.fresh("bucket")
    s3.create_bucket(Bucket=bucket)
    ledger = Ledger(caller.client("dynamodb"), caller.aws.table("memory"))
    caller.fails(
        {"call": "dynamodb UpdateItem INSTANCE", "how": "throttled", "times": 1},
        {"call": "dynamodb UpdateItem INSTANCE", "how": "answer lost", "nth": 2, "times": 1},
        throttled("s3 PUT plans", times=1),
    )

    assert ledger.pair("i-1", "claim-1", "l-1").claim == "claim-1"
    Store(caller.client("s3"), bucket).put("plans/up-1/1.json.gz", {})

    assert caller.struck() == [1, 1, 1]
    assert set(ledger.pairings(["i-1"])) == {"i-1"}
