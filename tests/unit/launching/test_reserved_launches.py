"""Launches into capacity reservations: which reservations a class can use, and what EC2 is asked for."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from joiner import names
from joiner.launching import CapacityShortage, Launch, read_fleet_answer, read_fleet_refusal
from joiner.launching.launch_grouping import ClaimToLaunch, RefusedClaim, group_launches
from joiner.launching.launch_outcome import list_short_offerings, read_instances
from joiner.launching.node_class_queries import build_queries
from joiner.launching.reservation_matching import read_reservations
from joiner.pools import CapacityReservation, CapacityReservationTerm, NodeClass, ResolvedNodeClass
from joiner.pools.resolved_node_class import PlacementGroup
from tests.unit.launching.launch_scenario import CATALOGUE, CLUSTER, launches, resolved, wanted

NOW: Final = "2026-11-21T12:00:00.000Z"
ODCR: Final = CapacityReservation("cr-1", "m5.large", "us-east-1a", 2, "123456789012", "targeted")


def described(**changes: Any) -> dict[str, Any]:
    return {
        "CapacityReservationId": "cr-1",
        "OwnerId": "123456789012",
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": "us-east-1a",
        "Tenancy": "default",
        "AvailableInstanceCount": 2,
        "State": "active",
        "InstanceMatchCriteria": "targeted",
        **changes,
    }


def ends(hour: int, minute: int, **more: Any) -> dict[str, Any]:
    return described(EndDate=datetime(2026, 11, 21, hour, minute, tzinfo=UTC), **more)


BLOCK: Final = {"ReservationType": "capacity-block"}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (described(), ODCR),
        (ends(13, 0), replace(ODCR, ends_at="2026-11-21T13:00:00Z")),
        (ends(13, 0, **BLOCK), replace(ODCR, kind="capacity-block", ends_at="2026-11-21T13:00:00Z")),
        (described(Interruptible=True), replace(ODCR, interruptible=True)),
        (described(AvailableInstanceCount=0), replace(ODCR, available=0)),
        (ends(11, 59), None),
        (ends(12, 40, **BLOCK), None),
        (described(State="expired"), None),
        (described(InstancePlatform="Windows"), None),
        (described(Tenancy="dedicated"), None),
    ],
)
def test_a_class_uses_active_reservations_for_linux_that_do_not_end_now(
    raw: dict[str, Any], expected: CapacityReservation | None
) -> None:
    assert read_reservations([raw, raw], NOW) == ((expected,) if expected else ())


@pytest.mark.parametrize(
    ("inside", "group", "used"), [("", "", 1), ("a", "", 0), ("", "a", 0), ("a", "a", 1), ("a", "b", 0)]
)
def test_a_class_uses_the_reservations_of_its_placement_group_only(inside: str, group: str, used: int) -> None:
    arn = {"PlacementGroupArn": f"arn:aws:ec2:us-east-1:123456789012:placement-group/{inside}"} if inside else {}
    of_class = PlacementGroup("pg-1", group, "cluster") if group else None

    assert len(read_reservations([described(**arn)], NOW, of_class)) == used


def test_each_reservation_term_is_one_query() -> None:
    terms = (
        CapacityReservationTerm(id="cr-1"),
        CapacityReservationTerm({"team": "ml"}, owner="123456789012", match="targeted"),
    )

    first, second = build_queries(
        NodeClass("default", capacity_reservation_terms=terms), "1.36", cluster="prod"
    ).reservations

    assert (first.ids, [each["Name"] for each in first.filters]) == (("cr-1",), ["state"])
    assert (second.ids, second.filters) == (
        (),
        (
            {"Name": "state", "Values": ["active"]},
            {"Name": "owner-id", "Values": ["123456789012"]},
            {"Name": "instance-match-criteria", "Values": ["targeted"]},
            {"Name": "tag:team", "Values": ["ml"]},
        ),
    )


def test_a_class_without_a_matching_reservation_is_ready_and_warns() -> None:
    node_class = NodeClass(
        "default", "AWSNodeTemplate", capacity_reservation_terms=(CapacityReservationTerm(id="cr-1"),)
    )

    found = resolved(node_class, reservations=())

    assert [(one.reason, one.severity) for one in found.problems if "Reservation" in one.reason] == [
        ("CapacityReservationsNotFound", "warning")
    ]
    assert resolved(node_class, reservations=[described()]).reservations == (ODCR,)


def test_a_stored_resolved_class_is_read_back_unchanged() -> None:
    one = replace(
        resolved(), reservations=(ODCR, replace(ODCR, id="cr-2", interruptible=True, ends_at="2027-01-01T00:00:00Z"))
    )

    assert ResolvedNodeClass.from_json(one.to_json()) == one


def claim_in(reservation: CapacityReservation, suffix: str = "a", *, label: str = "") -> ClaimToLaunch:
    one = wanted(suffix, capacity_type="reserved")
    claim = replace(one.claim, labels={**one.claim.labels, names.RESERVATION: label or reservation.id})
    return replace(one, claim=claim, resolved=replace(one.resolved, reservations=(reservation,)))


def target(launch: Launch) -> Any:
    return launch.templates[0].data["CapacityReservationSpecification"]


def test_a_reserved_node_is_launched_in_its_reservation_only() -> None:
    (launch,) = launches(claim_in(ODCR, "a"), claim_in(ODCR, "b"))

    assert target(launch) == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
    }
    assert "InstanceMarketOptions" not in launch.templates[0].data
    assert launch.request["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 2,
        "DefaultTargetCapacityType": "on-demand",
    }
    assert launch.request["OnDemandOptions"] == {"AllocationStrategy": "lowest-price"}


@pytest.mark.parametrize("capacity_type", ["on-demand", "spot"])
def test_other_nodes_use_no_reservation_of_the_account(capacity_type: str) -> None:
    (launch,) = launches(wanted("a", capacity_type=capacity_type))

    assert target(launch) == {"CapacityReservationPreference": "none"}


def test_a_launch_into_a_capacity_block_names_its_market_type() -> None:
    (launch,) = launches(claim_in(replace(ODCR, kind="capacity-block")))

    assert launch.templates[0].data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    assert launch.request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "capacity-block"
    assert not {"OnDemandOptions", "SpotOptions", "ReservedCapacityOptions"} & launch.request.keys()


def test_a_launch_into_an_interruptible_reservation_names_its_market_type() -> None:
    (launch,) = launches(claim_in(replace(ODCR, interruptible=True)))

    market_type = "interruptible-capacity-reservation"
    assert launch.templates[0].data["InstanceMarketOptions"] == {"MarketType": market_type}
    assert launch.request["ReservedCapacityOptions"] == {"ReservationTypes": [market_type]}
    assert launch.request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "reserved-capacity"
    assert "OnDemandOptions" not in launch.request


def test_claims_of_two_reservations_are_two_launches() -> None:
    assert len(launches(claim_in(ODCR, "a"), claim_in(replace(ODCR, id="cr-2"), "b"))) == 2


def test_a_claim_whose_reservation_is_gone_is_refused() -> None:
    gone = claim_in(ODCR, label="cr-9")

    assert group_launches([gone], CATALOGUE, CLUSTER, execution="up-1") == (
        (),
        (
            RefusedClaim(
                "default-a", "CapacityReservationNotFound", "the class selects no active capacity reservation cr-9"
            ),
        ),
    )


def test_instances_that_ec2_calls_on_demand_are_reserved_and_a_full_reservation_is_closed() -> None:
    (launch,) = launches(claim_in(ODCR, "a"), claim_in(ODCR, "b"))
    override = {"InstanceType": "m5.large", "SubnetId": "subnet-a2", "AvailabilityZone": "us-east-1a"}
    place = {"LaunchTemplateAndOverrides": {"Overrides": override}, "Lifecycle": "on-demand"}
    full = {**place, "ErrorCode": "ReservationCapacityExceeded", "ErrorMessage": ""}

    outcome = read_fleet_answer(launch, {"Instances": [{**place, "InstanceIds": ["i-1"]}], "Errors": [full]})

    assert [(one.claim, one.capacity_type) for one in outcome.launched] == [("default-a", "reserved")]
    assert outcome.short == (CapacityShortage("reserved", "m5.large", "us-east-1a", "ReservationCapacityExceeded"),)
    assert outcome.again and outcome.unmet == ("default-b",)
    assert list_short_offerings(outcome.short[0], launch) == {("reserved", "m5.large", "us-east-1a@cr-1")}
    by_tag = read_instances(launch, {"i-1": ("m5.large", "us-east-1a", "on-demand")})
    assert [one.capacity_type for one in by_tag.launched] == ["reserved"]


@pytest.mark.parametrize(
    ("code", "avoided"),
    [
        ("InsufficientInstanceCapacity", ("m5.large", "us-east-1a@cr-1")),
        ("InvalidCapacityReservationState", ("m5.large", "us-east-1a@cr-1")),
        ("InvalidCapacityReservationId.NotFound", ("m5.large", "us-east-1a@cr-1")),
        ("VcpuLimitExceeded", ("m5.large", "us-east-1a")),
    ],
)
def test_an_error_about_a_reservation_closes_this_reservation_and_a_quota_closes_all(
    code: str, avoided: tuple[str, str]
) -> None:
    (launch,) = launches(claim_in(ODCR))

    (short,) = read_fleet_refusal(launch, code, "").short

    assert ("reserved", *avoided) in list_short_offerings(short, launch)
    assert (("reserved", "m5.large", "us-east-1a") in list_short_offerings(short, launch)) == (code[0] == "V")
