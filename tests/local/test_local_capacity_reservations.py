"""Capacity reservations of the local EC2: which launches use them, when they are refused, and what remains when they
end.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from joiner_local.aws.account_setup.cluster_network import seed_network
from tests.local.launch_fixtures import LaunchPad, launched
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

A = "us-east-1a"
NONE = {"CapacityReservationPreference": "none"}


@pytest.fixture
def aws(local_aws: RunningAws) -> Iterator[RunningAws]:
    yield local_aws
    local_aws.knob("reservations", clear=True)


def pad(aws: RunningAws, **data: Any) -> LaunchPad:
    network = seed_network(aws.endpoint, "reservations")
    return LaunchPad.build(aws.client("ec2"), aws.client("ssm"), network, aws.fresh("template"), **data)


def targeted(reservation: str, market_type: str = "") -> dict[str, Any]:
    target = {"CapacityReservationTarget": {"CapacityReservationId": reservation}}
    specification = {"CapacityReservationPreference": "capacity-reservations-only", **target}
    return {"CapacityReservationSpecification": specification} | (
        {"InstanceMarketOptions": {"MarketType": market_type}} if market_type else {}
    )


def reserve(aws: RunningAws, **asked: Any) -> str:
    return str(aws.knob("reservations", **{"instanceType": "m5.large", "zone": A, "count": 2, **asked})["id"])


def held(pad: LaunchPad, instance: str) -> str | None:
    found: str | None = pad.instance(instance).get("CapacityReservationId")
    return found


def described(pad: LaunchPad, **asked: Any) -> list[tuple[int, str]]:
    found = pad.ec2.describe_capacity_reservations(**asked)["CapacityReservations"]
    return [(one["AvailableInstanceCount"], one["State"]) for one in found]


def codes(answer: dict[str, Any]) -> list[str]:
    return [error["ErrorCode"] for error in answer["Errors"]]


def test_a_targeted_launch_uses_the_reservation_until_it_is_full(aws: RunningAws) -> None:
    reservation = reserve(aws, match="targeted")
    aws.knob("capacity", instanceType="m5.large", available=0)  # reserved capacity is not taken from others
    bench = pad(aws, **targeted(reservation))

    answer = bench.fleet([bench.override()], 3)
    aws.knob("capacity", clear=True)

    assert [held(bench, one) for one in launched(answer)] == [reservation, reservation]
    assert codes(answer) == ["ReservationCapacityExceeded"]
    assert described(bench, CapacityReservationIds=[reservation]) == [(0, "active")]
    bench.ec2.terminate_instances(InstanceIds=launched(answer)[:1])
    assert described(bench)[0][0] in (0, 1)  # an instance that shuts down may still hold its place


def test_an_open_reservation_is_used_unseen_unless_the_launch_asks_for_none(aws: RunningAws) -> None:
    reservation = reserve(aws)
    silent, careful = pad(aws), pad(aws, CapacityReservationSpecification=NONE)

    assert held(silent, silent.launch()[0]) == reservation
    assert held(careful, careful.launch()[0]) is None
    assert held(silent, silent.launch(spot=True)[0]) is None


def test_instances_run_on_outside_of_a_reservation_that_is_cancelled(aws: RunningAws) -> None:
    reservation = reserve(aws)
    bench = pad(aws, **targeted(reservation))
    (instance,) = bench.launch()

    aws.knob("reservations", cancel=reservation)

    assert held(bench, instance) is None
    assert described(bench) == [(0, "cancelled")]
    assert codes(bench.fleet([bench.override()])) == ["InvalidCapacityReservationState"]


@pytest.mark.parametrize(
    ("override", "code"),
    [({"instance_type": "c5.large"}, "InvalidParameterValue"), ({"zone": "b"}, "InvalidParameterValue")],
)
def test_a_reservation_takes_only_its_type_and_zone(aws: RunningAws, override: dict[str, str], code: str) -> None:
    bench = pad(aws, **targeted(reserve(aws)))

    assert codes(bench.fleet([bench.override(**override)])) == [code]


@pytest.mark.parametrize(
    ("asked", "market_type", "target", "options"),
    [
        ({"type": "capacity-block"}, "capacity-block", "capacity-block", {}),
        (
            {"interruptible": True},
            "interruptible-capacity-reservation",
            "reserved-capacity",
            {"ReservedCapacityOptions": {"ReservationTypes": ["interruptible-capacity-reservation"]}},
        ),
    ],
)
def test_blocks_and_interruptible_reservations_need_their_market(
    aws: RunningAws, asked: dict[str, Any], market_type: str, target: str, options: dict[str, Any]
) -> None:
    reservation = reserve(aws, **asked)
    plain, right = pad(aws, **targeted(reservation)), pad(aws, **targeted(reservation, market_type))
    capacity = {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": target}

    assert codes(plain.fleet([plain.override()])) == ["InvalidParameterCombination"]
    assert [held(right, one) for one in launched(fleet(right, capacity, options))] == [reservation]
    with pytest.raises(ClientError, match="market type"):
        fleet(plain, capacity, options)


def fleet(bench: LaunchPad, capacity: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    specification = {"LaunchTemplateName": bench.template, "Version": "1"}
    configs = [{"LaunchTemplateSpecification": specification, "Overrides": [bench.override()]}]
    answer: dict[str, Any] = bench.ec2.create_fleet(
        Type="instant", LaunchTemplateConfigs=configs, TargetCapacitySpecification=capacity, **options
    )
    return answer


def test_reservations_are_found_by_tags_and_criteria(aws: RunningAws) -> None:
    reserve(aws, match="targeted", tags={"team": "ml"}, count=3)
    reserve(aws, count=5)
    bench = pad(aws)

    def found(name: str, value: str) -> list[int]:
        return [count for count, _ in described(bench, Filters=[{"Name": name, "Values": [value]}])]

    assert (found("tag:team", "ml"), found("instance-match-criteria", "open")) == ([3], [5])
    with pytest.raises(ClientError, match="does not exist"):
        bench.ec2.describe_capacity_reservations(CapacityReservationIds=["cr-0"])


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"CapacityReservationIds": ["cr-0123456789abcdef0"]}, "InvalidCapacityReservationId.NotFound"),
        ({"Filters": [{"Name": "team", "Values": ["ml"]}]}, "InvalidParameterValue"),
    ],
)
def test_unknown_reservations_and_filters_are_refused(aws: RunningAws, asked: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError) as refused:
        aws.client("ec2").describe_capacity_reservations(**asked)

    assert refused.value.response["Error"]["Code"] == code


def test_the_instances_of_a_capacity_block_are_terminated_after_its_warning(aws: RunningAws) -> None:
    block, ordinary = reserve(aws, type="capacity-block", endsInSeconds=7200), reserve(aws, match="targeted")
    bench = pad(aws, **targeted(block, "capacity-block"))
    capacity = {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "capacity-block"}
    (instance,) = launched(fleet(bench, capacity, {}))
    (other,) = pad(aws, **targeted(ordinary)).launch()

    aws.knob("reservations", expire=block, grace=1)

    eventually(lambda: bench.state(instance) == "terminated")
    assert bench.state(other) in ("pending", "running")
