"""One row for each error code of EC2: what is avoided, when the claims are planned again, and which message the
user reads.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from joiner.launching import LaunchOffering, LaunchOutcome, read_fleet_answer, read_fleet_refusal
from joiner.launching.ec2_error_codes import (
    REMEDIES,
    SHORTAGES,
    THROTTLING_ERRORS,
    TRANSIENT_ERRORS,
    find_error_remedy,
)
from joiner.launching.vcpu_quotas import find_vcpu_quota
from joiner.names import ON_DEMAND, SPOT
from joiner.pools import NodeClassRef, NodePool
from joiner.reporting.events import Subject
from joiner.reporting.launch_events import report_outcome
from tests.unit.launching.launch_scenario import launches, wanted

PAGE: Final = Path(__file__).parents[3] / "docs" / "ec2-errors.md"
POOL: Final = NodePool("default", NodeClassRef("EC2NodeClass", "default"), uid="u-1")
M5: Final = LaunchOffering(0.096, "m5.large", "us-east-1a")
C5: Final = LaunchOffering(0.085, "c5.large", "us-east-1b")
SHORT: Final = "InsufficientCapacityError"
NO_ROLE: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
LIMIT: Final = "You have requested more vCPU capacity than your current vCPU limit of 32 allows"


@dataclass(frozen=True, slots=True)
class ErrorOutcome:
    """One answer for the offering m5.large in us-east-1a.

    ``avoided``: the offering that is unavailable for three minutes. ``again``: the claims are planned again in the
    same execution; ``later``: after a wait with jitter. ``events``: the reasons of the pool's events.
    """

    code: str
    avoided: tuple[str, str] | None = None
    again: bool = True
    later: bool = False
    events: tuple[str, ...] = (SHORT,)
    says: str = ""
    message: str = ""


HERE: Final = ("m5.large", "us-east-1a")
EVERY_ZONE: Final = ("m5.large", "*")
ALL: Final = ("*", "*")

ROWS: Final = (
    ErrorOutcome("InsufficientInstanceCapacity", HERE),
    ErrorOutcome("UnfulfillableCapacity", HERE),
    ErrorOutcome("Unsupported", HERE),
    ErrorOutcome("InsufficientCapacityOnHost", HERE),
    ErrorOutcome("InsufficientReservedInstanceCapacity", HERE),
    ErrorOutcome("ReservationCapacityExceeded", HERE),
    ErrorOutcome("InvalidCapacityReservationId.NotFound", HERE),
    ErrorOutcome("InvalidCapacityReservationState", HERE),
    ErrorOutcome("SpotMaxPriceTooLow", HERE),
    ErrorOutcome("InvalidFleetConfiguration", HERE),
    ErrorOutcome(
        "InsufficientFreeAddressesInSubnet",
        ("*", "us-east-1a"),
        events=(SHORT, "InsufficientFreeAddressesInSubnet"),
        says="larger or more subnets",
    ),
    ErrorOutcome(
        "VcpuLimitExceeded",
        EVERY_ZONE,
        message=LIMIT,
        events=(SHORT, "VCPULimitExceeded"),
        says=(
            'The quota "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances" of Service Quotas '
            "(L-1216C47A) is 32 vCPUs and used up. Raise it: aws service-quotas request-service-quota-increase "
            "--service-code ec2 --quota-code "
            "L-1216C47A --desired-value N"
        ),
    ),
    ErrorOutcome(
        "MaxSpotInstanceCountExceeded",
        EVERY_ZONE,
        events=(SHORT, "SpotQuotaExceeded"),
        says="Show it: aws service-quotas get-service-quota --service-code ec2 --quota-code L-34B43A08",
    ),
    ErrorOutcome("InstanceLimitExceeded", EVERY_ZONE, events=(SHORT, "InstanceLimitExceeded"), says="Service Quotas"),
    ErrorOutcome("MaxFleetCountExceeded", ALL, events=(SHORT, "FleetQuotaExceeded"), says="EC2 Fleets per Region"),
    ErrorOutcome(NO_ROLE, ALL, events=(SHORT, "SpotSLRCreationFailed"), says="aws iam create-service-linked-role"),
    *(ErrorOutcome(code, later=True, events=("RequestLimitExceeded",)) for code in sorted(THROTTLING_ERRORS)),
    ErrorOutcome("InternalError", later=True, events=("InternalError",)),
    ErrorOutcome("InternalFailure", later=True, events=("LaunchFailed",)),
    ErrorOutcome("ServiceUnavailable", later=True, events=("LaunchFailed",)),
    ErrorOutcome("Unavailable", later=True, events=("LaunchFailed",)),
    ErrorOutcome(
        "IdempotentParameterMismatch", later=True, events=("IdempotentParameterMismatch",), says="a new request"
    ),
    ErrorOutcome("InvalidLaunchTemplateId.NotFoundException", later=True, events=("LaunchTemplateNotFound",)),
    ErrorOutcome("InvalidLaunchTemplateName.NotFoundException", later=True, events=("LaunchTemplateNotFound",)),
    ErrorOutcome("AttachmentLimitExceeded", again=False, events=("TooManyInterfaces",), says="networkInterfaces"),
    ErrorOutcome("InvalidAMIID.Malformed", again=False, events=("InvalidAMIID",)),
    ErrorOutcome("InvalidAMIID.NotFound", again=False, events=("AMINotFound",)),
    ErrorOutcome("InvalidAMIID.Unavailable", again=False, events=("AMINotFound",)),
    ErrorOutcome("InvalidBlockDeviceMapping", again=False, events=("BlockDeviceInvalid",), says="blockDeviceMappings"),
    ErrorOutcome("InvalidGroup.NotFound", again=False, events=("SecurityGroupNotFound",)),
    ErrorOutcome("InvalidPlacementGroup.Unknown", again=False, events=("PlacementGroupNotFound",)),
    ErrorOutcome("InvalidSnapshot.NotFound", again=False, events=("SnapshotNotFound",)),
    ErrorOutcome("InvalidSubnetID.NotFound", again=False, events=("SubnetNotFound",)),
    ErrorOutcome("InvalidUserData.Malformed", again=False, events=("InvalidUserData",), says="userData"),
    ErrorOutcome("LaunchTemplateDiffers", again=False, events=("LaunchTemplateDiffers",), says="CloudTrail"),
    ErrorOutcome("MaxIOPSLimitExceeded", again=False, events=("IOPSQuotaExceeded",), says="Service Quotas"),
    ErrorOutcome(
        "MaxTemplateLimitExceeded", again=False, events=("LaunchTemplateQuotaExceeded",), says="launch templates"
    ),
    ErrorOutcome("PrivateIpAddressLimitExceeded", again=False, events=("TooManyAddresses",), says="ipPrefixCount"),
    ErrorOutcome("PendingVerification", again=False, events=("AccountPendingVerification",)),
    ErrorOutcome(
        "SecurityGroupsPerInterfaceLimitExceeded",
        again=False,
        events=("TooManySecurityGroups",),
        says="select fewer security groups",
    ),
    ErrorOutcome(
        "UnauthorizedOperation", again=False, events=("Unauthorized",), says="aws sts decode-authorization-message"
    ),
    ErrorOutcome(
        "InvalidParameterValue",
        again=False,
        message="Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
        events=("InstanceProfileNameInvalid",),
        says="instanceProfile",
    ),
)


LAUNCH_CODES: Final = frozenset(
    {
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        "IdempotentParameterMismatch",
        "InsufficientCapacityOnHost",
        "InsufficientFreeAddressesInSubnet",
        "InsufficientInstanceCapacity",
        "InsufficientReservedInstanceCapacity",
        "InvalidFleetConfiguration",
        "InvalidLaunchTemplateId.NotFoundException",
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidParameterValue",
        "InvalidUserData.Malformed",
        "MaxFleetCountExceeded",
        "MaxSpotInstanceCountExceeded",
        "RequestLimitExceeded",
        "ReservationCapacityExceeded",
        "SpotMaxPriceTooLow",
        "UnauthorizedOperation",
        "UnfulfillableCapacity",
        "Unsupported",
        "VcpuLimitExceeded",
    }
)
"""The codes that CreateFleet is known to answer, for an offering or for the whole call. Sources: EC2 API reference,
"Error codes"; Karpenter, `pkg/errors`."""


def launch_of(row: ErrorOutcome) -> Any:
    spot = row.code in (NO_ROLE, "MaxSpotInstanceCountExceeded", "SpotMaxPriceTooLow", "UnfulfillableCapacity")
    return launches(wanted("a", M5, C5, capacity_type=SPOT if spot else ON_DEMAND))[0]


def answered(row: ErrorOutcome) -> LaunchOutcome:
    override = {"InstanceType": "m5.large", "SubnetId": "subnet-a2", "AvailabilityZone": "us-east-1a"}
    launch = launch_of(row)
    place = {"LaunchTemplateAndOverrides": {"Overrides": override}, "Lifecycle": launch.capacity_type}
    return read_fleet_answer(launch, {"Errors": [{**place, "ErrorCode": row.code, "ErrorMessage": row.message}]})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.code)
def test_each_error_code_has_its_outcome(row: ErrorOutcome) -> None:
    outcome = answered(row)
    events = report_outcome(outcome, (), Subject.pool(POOL))

    assert [(one.instance_type, one.zone) for one in outcome.short] == ([row.avoided] if row.avoided else [])
    assert {one.capacity_type for one in outcome.short} <= {launch_of(row).capacity_type}
    assert (outcome.again, outcome.later, outcome.unmet) == (row.again, row.later, ("default-a",))
    assert tuple(event.reason for event in events) == row.events
    assert row.says in events[-1].note
    assert all(len(event.note) <= 1024 for event in events)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.code)
def test_a_refusal_of_the_whole_call_is_planned_again_like_an_error_of_one_offering(row: ErrorOutcome) -> None:
    whole = read_fleet_refusal(launch_of(row), row.code, row.message)

    assert (whole.again, whole.later, whole.failed) == (row.again, row.later, answered(row).failed)
    assert bool(whole.short) == bool(row.avoided)


def test_each_code_that_create_fleet_answers_has_an_outcome_of_its_own() -> None:
    unknown = find_error_remedy("SomethingNew", "").reason
    rows = {row.code: row for row in ROWS}

    assert rows.keys() >= LAUNCH_CODES
    for code in LAUNCH_CODES:
        outcome = answered(rows[code])
        assert outcome.short or outcome.later or {one.reason for one in outcome.failed} - {unknown}, code


def test_the_page_lists_exactly_these_codes() -> None:
    known = {*SHORTAGES, *THROTTLING_ERRORS, *TRANSIENT_ERRORS, *REMEDIES}
    listed = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)

    assert sorted(listed) == sorted(known)
    assert {row.code for row in ROWS} == known | {"InvalidParameterValue"}


def test_every_family_of_the_catalogue_but_new_ones_has_a_quota() -> None:
    types = ("a1.large", "im4gn.large", "is4gen.large", "c7g.large", "mac2.metal", "hpc7g.4xlarge", "trn1.2xlarge")

    assert [find_vcpu_quota(one, ON_DEMAND) is not None for one in types] == [True] * len(types)
    assert find_vcpu_quota("p5.48xlarge", SPOT) != find_vcpu_quota("p4d.24xlarge", SPOT)
    assert find_vcpu_quota("zz9.large", ON_DEMAND) is None
