"""Outcomes of a fleet request: which claims got an instance, which offerings are short, what a person must fix."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.launching import (
    CapacityShortage,
    LaunchFailure,
    LaunchOffering,
    LaunchOutcome,
    PairedInstance,
    pair_claims,
    read_fleet_answer,
    read_fleet_refusal,
)
from joiner.launching.launch_outcome import LONGEST_MESSAGE, list_short_offerings, read_instances
from tests.unit.launching.launch_scenario import launches, wanted

M5 = LaunchOffering(0.096, "m5.large", "us-east-1a")
C5 = LaunchOffering(0.085, "c5.large", "us-east-1b")
LAUNCH = launches(wanted("b", M5, C5), wanted("a", M5, C5), wanted("c", M5, C5))[0]


def instances(offer: LaunchOffering, *ids: str) -> dict[str, Any]:
    subnet = {"us-east-1a": "subnet-a2", "us-east-1b": "subnet-b1"}[offer.zone]
    override = {"InstanceType": offer.instance_type, "SubnetId": subnet, "AvailabilityZone": offer.zone}
    place = {"LaunchTemplateAndOverrides": {"Overrides": override}, "Lifecycle": "on-demand"}
    return {**place, "InstanceIds": list(ids), "InstanceType": offer.instance_type}


def error(code: str, offer: LaunchOffering = M5, message: str = "") -> dict[str, Any]:
    place = {key: value for key, value in instances(offer).items() if key not in ("InstanceIds", "InstanceType")}
    return {**place, "ErrorCode": code, "ErrorMessage": message}


def test_every_claim_gets_an_instance() -> None:
    outcome = read_fleet_answer(LAUNCH, {"Instances": [instances(M5, "i-3", "i-1"), instances(C5, "i-2")]})

    assert outcome == LaunchOutcome(
        launched=(
            PairedInstance("i-1", "default-a", "m5.large", "us-east-1a", "on-demand", "ami-x86_64-standard", 0.096),
            PairedInstance("i-2", "default-b", "c5.large", "us-east-1b", "on-demand", "ami-x86_64-standard", 0.085),
            PairedInstance("i-3", "default-c", "m5.large", "us-east-1a", "on-demand", "ami-x86_64-standard", 0.096),
        )
    )
    assert not outcome.again


def test_a_partly_fulfilled_launch_has_instances_and_a_shortage() -> None:
    outcome = read_fleet_answer(
        LAUNCH, {"Instances": [instances(M5, "i-1")], "Errors": [error("InsufficientInstanceCapacity", C5)]}
    )

    assert [one.claim for one in outcome.launched] == ["default-a"]
    assert outcome.unmet == ("default-b", "default-c")
    assert outcome.short == (CapacityShortage("on-demand", "c5.large", "us-east-1b", "InsufficientInstanceCapacity"),)
    assert outcome.again


def test_throttling_in_a_successful_response_is_no_shortage() -> None:
    outcome = read_fleet_answer(
        LAUNCH, {"Instances": [], "Errors": [error("RequestLimitExceeded"), error("RequestLimitExceeded", C5)]}
    )

    assert (outcome.short, outcome.failed, outcome.throttled, outcome.again) == ((), (), True, True)
    assert outcome.codes == ("RequestLimitExceeded",)


def test_a_full_subnet_is_a_shortage_of_every_type_in_its_zone() -> None:
    outcome = read_fleet_answer(LAUNCH, {"Errors": [error("InsufficientFreeAddressesInSubnet")]})

    assert outcome.short == (CapacityShortage("on-demand", "*", "us-east-1a", "InsufficientFreeAddressesInSubnet"),)


def test_without_the_role_for_spot_every_spot_offering_is_unavailable() -> None:
    spot = launches(wanted("a", capacity_type="spot"))[0]

    outcome = read_fleet_answer(spot, {"Errors": [error("AuthFailure.ServiceLinkedRoleCreationNotPermitted")]})

    assert outcome.short == (CapacityShortage("spot", "*", "*", "AuthFailure.ServiceLinkedRoleCreationNotPermitted"),)


def test_an_error_without_a_zone_has_the_zone_of_its_subnet() -> None:
    refusal = error("InsufficientInstanceCapacity", C5)
    del refusal["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"]

    assert read_fleet_answer(LAUNCH, {"Errors": [refusal]}).short == (
        CapacityShortage("on-demand", "c5.large", "us-east-1b", "InsufficientInstanceCapacity"),
    )


def test_an_error_without_an_offering_concerns_every_offering() -> None:
    outcome = read_fleet_answer(LAUNCH, {"Errors": [{"ErrorCode": "Unsupported", "ErrorMessage": ""}]})

    assert [(one.instance_type, one.zone) for one in outcome.short] == [
        ("c5.large", "us-east-1b"),
        ("m5.large", "us-east-1a"),
    ]


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        ("UnauthorizedOperation", "You are not authorized to perform this operation.", "Unauthorized"),
        (
            "InvalidParameterValue",
            "Value (x) for parameter iamInstanceProfile.name is invalid.",
            "InstanceProfileNameInvalid",
        ),
        ("InvalidParameterValue", "User data is limited to 16384 bytes", "UserDataSizeLimitExceeded"),
        (
            "InvalidParameter",
            "Security group sg-1 and subnet subnet-1 belong to different networks.",
            "SecurityGroupSubnetVPCMismatch",
        ),
        ("InvalidAMIID.NotFound", "The image id '[ami-1]' does not exist", "AMINotFound"),
        ("PendingVerification", "", "AccountPendingVerification"),
        ("SomethingNew", "never seen", "LaunchFailed"),
    ],
)
def test_a_failure_has_a_reason_and_a_remedy(code: str, message: str, reason: str) -> None:
    inside = read_fleet_answer(LAUNCH, {"Errors": [error(code, message=message)]})
    whole = read_fleet_refusal(LAUNCH, code, message)

    assert inside.failed == whole.failed
    assert [(failure.reason, failure.code) for failure in whole.failed] == [(reason, code)]
    assert whole.failed[0].remedy
    assert (whole.unmet, whole.again) == (LAUNCH.claims, False)


def test_errors_of_one_reason_are_one_failure_and_its_message_is_cut() -> None:
    errors = [error("Odd", message=f"offering {number:03} {'x' * 2000}") for number in range(300)]

    (failure,) = read_fleet_answer(LAUNCH, {"Errors": [*reversed(errors), error("Odd", message="y")]}).failed

    assert failure.message == f"offering 000 {'x' * 2000}"[:LONGEST_MESSAGE]


def test_errors_of_several_reasons_are_several_failures() -> None:
    messages = ("User data is limited to 16384 bytes", "Value (x) for parameter iamInstanceProfile.name is invalid.")

    outcome = read_fleet_answer(LAUNCH, {"Errors": [error("InvalidParameterValue", message=each) for each in messages]})

    assert [failure.reason for failure in outcome.failed] == ["InstanceProfileNameInvalid", "UserDataSizeLimitExceeded"]


def test_a_throttled_call_is_no_information_about_capacity() -> None:
    assert read_fleet_refusal(LAUNCH, "RequestLimitExceeded", "slow down") == LaunchOutcome(
        unmet=LAUNCH.claims, throttled=True
    )


@pytest.mark.parametrize("code", ["InternalError", "InvalidLaunchTemplateName.NotFoundException"])
def test_a_temporary_error_is_tried_again(code: str) -> None:
    assert read_fleet_refusal(LAUNCH, code, "").again


def test_a_quota_that_refuses_the_whole_call_is_short_on_all_its_offers() -> None:
    assert len(read_fleet_refusal(LAUNCH, "VcpuLimitExceeded", "").short) == 2


def test_a_lost_response_is_replaced_by_the_instances_with_the_tag_of_the_launch() -> None:
    by_tag = {"i-2": ("c5.large", "us-east-1b", "on-demand"), "i-1": ("m5.large", "us-east-1a", "on-demand")}

    assert read_instances(LAUNCH, by_tag) == read_fleet_answer(
        LAUNCH, {"Instances": [instances(C5, "i-2"), instances(M5, "i-1")]}
    )


@pytest.mark.parametrize(
    "outcome",
    [
        LaunchOutcome(),
        read_fleet_answer(
            LAUNCH,
            {"Instances": [instances(M5, "i-1")], "Errors": [error("InsufficientInstanceCapacity"), error("Odd")]},
        ),
        LaunchOutcome(failed=(LaunchFailure("a", "b", "c", "d"),), unmet=("x",), throttled=True),
    ],
)
def test_a_stored_outcome_is_read_back_unchanged(outcome: LaunchOutcome) -> None:
    assert LaunchOutcome.from_json(outcome.to_json()) == outcome


@given(st.sets(st.text("abc", min_size=1), max_size=8), st.sets(st.text("xyz", min_size=1), max_size=8), st.randoms())
def test_pairing_again_pairs_the_same(claims: set[str], ids: set[str], random: Any) -> None:
    paired = pair_claims(claims, ids)
    shuffled_claims, shuffled_ids = random.sample(sorted(claims), len(claims)), random.sample(sorted(ids), len(ids))

    assert pair_claims(shuffled_claims, shuffled_ids) == paired
    assert len(paired) == len(set(paired.values())) == min(len(claims), len(ids))


@given(
    st.integers(0, 3),
    st.lists(st.sampled_from(["InsufficientInstanceCapacity", "RequestLimitExceeded", "Odd"]), max_size=4),
)
def test_every_claim_is_either_launched_or_unmet(count: int, codes: list[str]) -> None:
    answer = {
        "Instances": [instances(M5, *(f"i-{number}" for number in range(count)))],
        "Errors": [error(code) for code in codes],
    }

    outcome = read_fleet_answer(LAUNCH, answer)

    assert sorted([*(one.claim for one in outcome.launched), *outcome.unmet]) == sorted(LAUNCH.claims)
    assert set(outcome.codes) == set(codes)


def test_a_shortage_of_a_whole_zone_is_one_of_each_requested_offering_in_it() -> None:
    short = CapacityShortage("on-demand", "*", "us-east-1a", "InsufficientInstanceCapacity")

    assert list_short_offerings(short, LAUNCH) == {
        ("on-demand", "*", "us-east-1a"),
        ("on-demand", "m5.large", "us-east-1a"),
    }


def test_a_shortage_of_hosts_in_a_placement_group_is_one_of_this_group_only() -> None:
    grouped = replace(LAUNCH, labels={"karpenter.k8s.aws/placement-group-id": "pg-1"})
    hosts = CapacityShortage("on-demand", "m5.large", "us-east-1a", "InsufficientInstanceCapacity")
    quota = replace(hosts, code="VcpuLimitExceeded")

    assert list_short_offerings(hosts, grouped) == {("on-demand", "m5.large", "us-east-1a@pg-1")}
    assert list_short_offerings(quota, grouped) == {("on-demand", "m5.large", "us-east-1a")}
