"""Spot placement scores, read from the local EC2, and their part in the price of spot offerings."""

from datetime import UTC, datetime

import pytest

from functions.refresh_catalogue.handler import InterruptionPrices
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.interruption_records import InterruptionWarnings
from joiner.adapters.placement_score_queries import read_placement_scores
from joiner.adapters.spot_history import put_spot_hours
from joiner.adapters.store import Store
from joiner.catalogue import InstanceType, Offering
from joiner.catalogue.interruption_history import SpotHours
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

C6I = ("c6i.2xlarge", "c6i.large", "c6i.xlarge")


def test_scores_are_read_by_family_and_zone(local_aws: RunningAws) -> None:
    for name in C6I:
        local_aws.knob("capacity", instanceType=name, zone="us-east-1a", lifecycle="spot", available=1)
    try:
        scores, refused = read_placement_scores(Ec2(local_aws.client("ec2")), "us-east-1", {"c6i": C6I, "few": C6I[:2]})
    finally:
        local_aws.knob("capacity", clear=True)

    assert refused == {}
    assert (scores["c6i"]["us-east-1a"], scores["c6i"]["us-east-1b"]) == (3, 10)
    assert set(scores["few"].values()) == {1}, "EC2 gives fewer than three types a low score"


def test_no_family_needs_no_call_and_another_region_has_no_scores(local_aws: RunningAws) -> None:
    ec2 = Ec2(local_aws.client("ec2"))

    assert read_placement_scores(ec2, "us-east-1", {}) == ({}, {})
    assert read_placement_scores(ec2, "eu-west-1", {"c6i": C6I}) == ({"c6i": {}}, {})


def test_a_low_score_is_a_small_price_of_the_spot_offering(local_aws: RunningAws) -> None:
    name, now = local_aws.table("scores"), int(datetime(2026, 11, 24, tzinfo=UTC).timestamp())
    local_aws.client("s3").create_bucket(Bucket=name)
    store, ec2 = Store(local_aws.client("s3"), name), Ec2(local_aws.client("ec2"))
    put_spot_hours(store, SpotHours({"c6i.large": {"us-east-1b": 5.0}}, now))
    zones = ("us-east-1a", "us-east-1b")
    types = [
        InstanceType(
            each,
            offerings=tuple(
                Offering(zone, kind, price) for zone in zones for kind, price in (("on-demand", 0.1), ("spot", 0.04))
            ),
        )
        for each in C6I
    ]
    warnings = InterruptionWarnings(local_aws.client("dynamodb"), name)
    for each in C6I:
        local_aws.knob("capacity", instanceType=each, zone="us-east-1a", lifecycle="spot", available=0)
    try:
        scored = InterruptionPrices(warnings, 0.5, "us-east-1").add(types, store, ec2, now)
        unscored = InterruptionPrices(warnings, 0.5).add(types, store, ec2, now)
    finally:
        local_aws.knob("capacity", clear=True)

    assert {
        (one.zone, one.interruptions) for each in scored for one in each.offerings if one.capacity_type == "spot"
    } == {("us-east-1a", 1 / 100 * 0.5 * 0.1), ("us-east-1b", 0.0)}
    assert all(one.interruptions == 0 for each in unscored for one in each.offerings)
