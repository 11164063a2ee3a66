"""For each row of the table, the local AWS refuses the call with the error of AWS."""

import pytest

from joiner.adapters.ec2_client import Ec2
from tests.local.refusals import (
    cluster_refusals,
    deployment_refusals,
    dynamodb_refusals,
    ec2_refusals,
    execution_refusals,
    function_refusals,
    signal_refusals,
    state_machine_refusals,
    storage_refusals,
)
from tests.local.refusals.refused_calls import ROWS, RefusedCall, refusal_of
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

# imported for their rows
SERVICES = (
    cluster_refusals,
    deployment_refusals,
    function_refusals,
    ec2_refusals,
    execution_refusals,
    signal_refusals,
    state_machine_refusals,
    storage_refusals,
    dynamodb_refusals,
)
MODELLED = [row for row in ROWS if row.attempt is not None]


@pytest.mark.parametrize("row", MODELLED, ids=lambda row: row.name.replace(" ", "-"))
def test_the_local_aws_refuses_with_the_error_of_aws(row: RefusedCall, local_aws: RunningAws) -> None:
    code, message = refusal_of(row, local_aws)

    assert code == row.code, message or "it was not refused"
    assert row.message in message
    assert message, "a refusal without a message"


def test_every_row_is_named_once_and_has_a_source() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert [row.name for row in ROWS if not row.source or not (row.attempt or row.why_not_modelled)] == []


def test_our_own_questions_about_many_instances_stay_below_the_limit_of_filters(local_aws: RunningAws) -> None:
    """500 instances need several calls; their states are values of the same filters."""
    ids = [f"i-{number:017x}" for number in range(500)]
    ec2 = Ec2(local_aws.client("ec2"))

    assert ec2.instances(ids) == []
    assert ec2.in_any_state(ids) == {}
