"""Shortages that do not end by themselves: the events of pool and pods name the remedy beside the shortage."""

from dataclasses import replace

import pytest

from joiner.launching import CapacityShortage, Launch, LaunchOutcome
from joiner.launching.ec2_error_codes import find_error_remedy
from joiner.planning import PendingPod, Plan, Reason
from joiner.pools import NodeClassRef, NodePool
from joiner.reporting.events import Subject
from joiner.reporting.launch_events import report_few_choices, report_outcome
from joiner.reporting.shortage_remedies import add_remedies
from tests.unit.launching.launch_scenario import launches, wanted

POOL = NodePool("default", NodeClassRef("EC2NodeClass", "default"), uid="u-1")
NO_ROLE = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
COMMAND = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
SPOT_SHORT = (
    "no instance type has the required offering: short of capacity, or not offered in the class's "
    "zones (spot m5.large in a)"
)
ON_DEMAND_SHORT = SPOT_SHORT.replace("spot ", "on-demand ")


def plan(reason: str) -> Plan:
    return Plan(pending=(PendingPod("default/web-1", (Reason("default", reason),)),))


def explanation(made: Plan) -> str:
    return made.pending[0].reasons[0].reason


def test_the_pool_hears_of_the_missing_spot_role_beside_the_shortage() -> None:
    events = report_outcome(
        LaunchOutcome(short=(CapacityShortage("spot", "*", "*", NO_ROLE),), unmet=("default-a",)),
        (),
        Subject.pool(POOL),
    )

    assert [event.reason for event in events] == ["InsufficientCapacityError", "SpotSLRCreationFailed"]
    assert all(event.subject.kind == "NodePool" and event.kind == "Warning" for event in events)
    assert COMMAND in events[1].note


@pytest.mark.parametrize("code", ["VcpuLimitExceeded", "MaxSpotInstanceCountExceeded", "MaxFleetCountExceeded"])
def test_the_pool_hears_of_quotas(code: str) -> None:
    events = report_outcome(
        LaunchOutcome(short=(CapacityShortage("spot", "m5.large", "a", code),), unmet=("default-a",)),
        (),
        Subject.pool(POOL),
    )

    assert "Service Quotas" in events[1].note


def test_a_shortage_that_passes_has_no_remedy() -> None:
    events = report_outcome(
        LaunchOutcome(
            short=(CapacityShortage("spot", "m5.large", "a", "UnfulfillableCapacity"),), unmet=("default-a",)
        ),
        (),
        Subject.pool(POOL),
    )

    assert [event.reason for event in events] == ["InsufficientCapacityError"]


def test_the_event_of_a_pod_that_waits_for_spot_names_the_command() -> None:
    made = add_remedies(plan(SPOT_SHORT), {("spot", NO_ROLE)})

    assert explanation(made) == f"{SPOT_SHORT}. EC2 answered {NO_ROLE}: run: {COMMAND}"


@pytest.mark.parametrize(
    ("reason", "mark"),
    [
        (ON_DEMAND_SHORT, ("spot", NO_ROLE)),
        (SPOT_SHORT, ("on-demand", "VcpuLimitExceeded")),
        (SPOT_SHORT, ("spot", "UnfulfillableCapacity")),
        ("no instance type has enough resources", ("spot", NO_ROLE)),
    ],
    ids=["another capacity type", "a quota of another capacity type", "a shortage that passes", "another reason"],
)
def test_a_pod_that_waits_for_something_else_is_not(reason: str, mark: tuple[str, str]) -> None:
    assert explanation(add_remedies(plan(reason), {mark})) == reason


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (NO_ROLE, "", "SpotSLRCreationFailed"),
        (
            "UnauthorizedOperation",
            "not authorized to create the service-linked role for EC2 Spot Instances",
            "SpotSLRCreationFailed",
        ),
        ("AccessDenied", "The role AWSServiceRoleForEC2Spot does not exist", "SpotSLRCreationFailed"),
        (
            "UnauthorizedOperation",
            "You are not authorized to perform iam:CreateServiceLinkedRole",
            "ServiceLinkedRoleMissing",
        ),
        ("UnauthorizedOperation", "You are not authorized to perform this operation.", "Unauthorized"),
    ],
)
def test_the_missing_role_is_known_by_whatever_ec2_calls_it(code: str, message: str, reason: str) -> None:
    assert find_error_remedy(code, message).reason == reason


def of_types(*types: str, capacity_type: str = "spot") -> Launch:
    launch = launches(wanted("a", capacity_type=capacity_type))[0]
    return replace(launch, images=dict.fromkeys(types, "ami-1"))


def test_a_spot_launch_with_fewer_than_five_types_is_reported_on_its_pool() -> None:
    (event,) = report_few_choices(of_types("m5.large", "c5.large"), Subject.pool(POOL))

    assert (event.reason, event.kind, event.subject.kind) == ("FewSpotChoices", "Warning", "NodePool")
    assert event.note == (
        "2 instance types can hold these pods on a spot node, at a price not above on-demand and within the limits "
        "(c5.large, m5.large): with fewer than 5, capacity is scarcer and interruptions are more frequent. Allow more "
        "instance types, sizes or zones in the requirements of NodePool/default and of its pods, or raise a limit that "
        "excludes larger ones"
    )


@pytest.mark.parametrize(
    "launch",
    [of_types("a.large", "b.large", "c.large", "d.large", "e.large"), of_types("a.large", capacity_type="on-demand")],
    ids=["five types", "on-demand"],
)
def test_other_launches_are_not(launch: Launch) -> None:
    assert report_few_choices(launch, Subject.pool(POOL)) == []
