"""What becomes of a drained claim's instance, as EC2 shows it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from joiner.adapters.ec2_instances import Instance
from joiner.lifecycle.instance_termination import judge_after_termination, judge_before_termination
from joiner.lifecycle.retirement import RetirementReason, RetirementStage, RetiringClaim
from tests.unit.lifecycle.joining_nodes import NOON

TAGS = {"kubernetes.io/cluster/prod": "owned", "eks:eks-cluster-name": "prod", "karpenter.sh/nodepool": "default"}
AT = int(NOON.timestamp())
DRAINED = RetiringClaim(
    "a",
    RetirementReason.DELETED,
    kind="NodeClaim",
    instance="i-a",
    node="node-a",
    since=AT,
    launched=AT,
    stage=RetirementStage.DRAINED,
)
LONG_AGO = replace(DRAINED, launched=AT - 301)


def shown(state: str = "running", tags: Mapping[str, str] = TAGS) -> Instance:
    """Return the instance as EC2 shows it."""
    return Instance(
        "i-a", instance_type="m5.large", zone="us-east-1a", image="", state=state, capacity_type="spot", tags=tags
    )


def before(one: RetiringClaim, instance: Instance | None) -> tuple[str, str, str] | None:
    judged = judge_before_termination(one, instance, "prod", NOON)
    return None if judged is None else (judged.stage, judged.reason, judged.why)


def after(one: RetiringClaim, instance: Instance | None) -> tuple[str, str]:
    judged = judge_after_termination(one, instance, NOON)
    return judged.stage, judged.why


def test_an_instance_with_the_tags_of_the_cluster_is_terminated() -> None:
    assert before(DRAINED, shown()) is None
    assert before(DRAINED, shown("stopped")) is None


@pytest.mark.parametrize("missing", TAGS)
def test_an_instance_that_lacks_a_tag_is_not_terminated_and_the_claim_gives_the_reason(missing: str) -> None:
    tags = {key: value for key, value in TAGS.items() if key != missing}

    assert before(DRAINED, shown(tags=tags)) == (
        "drained",
        "deleted",
        "instance i-a lacks a tag of prod: kubernetes.io/cluster/prod=owned, eks:eks-cluster-name=prod and "
        "karpenter.sh/nodepool must be there",
    )


def test_an_instance_of_another_cluster_is_not_terminated() -> None:
    found = before(DRAINED, shown(tags=TAGS | {"eks:eks-cluster-name": "other"}))

    assert found is not None
    assert found[0] == "drained"


def test_an_instance_that_is_shutting_down_needs_no_second_call() -> None:
    assert before(DRAINED, shown("shutting-down")) == ("terminating", "deleted", "instance i-a is shutting-down")


def test_a_lost_instance_that_runs_is_drained_first() -> None:
    lost = DRAINED.lost("its instance is gone")

    assert before(lost, shown()) == ("draining", "deleted", "instance i-a is running")
    assert before(lost, shown("stopped")) is None
    assert before(replace(lost, node=""), shown()) is None


def test_an_instance_that_ec2_does_not_know_is_gone_some_minutes_after_its_launch() -> None:
    assert before(DRAINED, None) == ("drained", "deleted", "EC2 knows no instance i-a")
    assert before(LONG_AGO, None) == ("terminated", "deleted", "EC2 knows no instance i-a")
    assert after(DRAINED, None) == ("terminating", "EC2 knows no instance i-a")
    assert after(LONG_AGO, None) == ("terminated", "EC2 knows no instance i-a")


def test_a_termination_is_confirmed_awaited_or_requested_again() -> None:
    assert after(DRAINED, shown("terminated")) == ("terminated", "")
    assert after(DRAINED, shown("shutting-down")) == ("terminating", "instance i-a is shutting-down")
    assert after(DRAINED, shown("running")) == ("drained", "instance i-a is running")
