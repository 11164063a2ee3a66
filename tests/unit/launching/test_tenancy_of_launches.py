"""Launches onto dedicated hardware: the template sets the tenancy, and the nodes get it as a label."""

from dataclasses import replace
from datetime import UTC, datetime

from joiner import names
from joiner.launching import CapacityShortage, PairedInstance
from joiner.launching.launch_grouping import ClaimToLaunch
from joiner.launching.launch_outcome import list_short_offerings
from joiner.lifecycle.launched_claims import launched_claim
from joiner.pools.resolved_node_class import PlacementGroup
from tests.unit.launching.launch_scenario import launches, resolved, wanted

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def dedicated(suffix: str, placement_group: PlacementGroup | None = None) -> ClaimToLaunch:
    """Return a claim whose plan decided on dedicated hardware."""
    made = wanted(suffix, resolved=replace(resolved(), placement_group=placement_group))
    return replace(made, claim=replace(made.claim, labels={**made.claim.labels, names.TENANCY: "dedicated"}))


def test_the_template_of_a_launch_onto_dedicated_hardware_sets_the_tenancy_and_others_do_not() -> None:
    (alone,), (other,) = launches(dedicated("a")), launches(wanted("b"))

    assert alone.templates[0].data["Placement"] == {"Tenancy": "dedicated"}
    assert "Placement" not in other.templates[0].data
    assert alone.templates[0].name != other.templates[0].name


def test_the_tenancy_is_set_beside_a_placement_group() -> None:
    (launch,) = launches(dedicated("a", PlacementGroup("pg-1", "together", "cluster")))

    assert launch.templates[0].data["Placement"] == {"Tenancy": "dedicated", "GroupId": "pg-1"}


def test_claims_of_different_tenancies_share_no_launch() -> None:
    made = launches(dedicated("a"), wanted("b"), dedicated("c"))

    assert [launch.claims for launch in made] == [("default-a", "default-c"), ("default-b",)]


def test_a_node_has_the_tenancy_of_its_launch_as_a_label() -> None:
    found = []
    for each in (dedicated("a"), wanted("b")):
        (launch,) = launches(each)
        instance = PairedInstance("i-1", each.claim.name, "m5.large", "us-east-1a", "on-demand", "ami-1", 0.1)
        claim = launched_claim(each.claim, instance, labels=launch.labels, capacity=None, allocatable=None, at=NOON)
        found.append(claim.labels[names.TENANCY])

    assert found == ["dedicated", "default"]


def test_a_shortage_of_dedicated_hardware_is_one_of_this_tenancy_and_a_quota_is_not() -> None:
    (launch,) = launches(dedicated("a"))
    hardware = CapacityShortage("on-demand", "m5.large", "us-east-1a", "InsufficientInstanceCapacity")
    unsupported = CapacityShortage("on-demand", "m5.large", "us-east-1a", "Unsupported")
    quota = CapacityShortage("on-demand", "m5.large", "us-east-1a", "VcpuLimitExceeded")

    assert list_short_offerings(hardware, launch) == {("on-demand", "m5.large", "us-east-1a@dedicated")}
    assert list_short_offerings(unsupported, launch) == {("on-demand", "m5.large", "us-east-1a@dedicated")}
    assert list_short_offerings(quota, launch) == {("on-demand", "m5.large", "us-east-1a")}
