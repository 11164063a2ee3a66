"""What settings allow or refuse of the resources that a class names, as far as no account is needed to know it."""

from dataclasses import replace
from typing import Any

import pytest

from joiner.launching.class_manifest_problems import find_manifest_problems
from joiner.launching.named_resources import list_unchecked_resources
from joiner.launching.node_class_policy import AllowedResources
from joiner.launching.selected_resources import find_problems_beyond_settings
from joiner.pools import (
    BlockDevice,
    CapacityReservationTerm,
    ImageTerm,
    NodeClass,
    SecurityGroupTerm,
    SubnetTerm,
)
from joiner.pools.node_class import PlacementGroupTerm
from tests.unit.launching.launch_scenario import CEILINGS, TEMPLATE, found

MODERN = replace(TEMPLATE, kind="EC2NodeClass", ami_family="AL2023", image_terms=(ImageTerm(alias="al2023@latest"),))
NONE = AllowedResources()
NAMED = replace(
    CEILINGS,
    subnets=AllowedResources(("subnet-1",)),
    security_groups=AllowedResources(("sg-1",)),
    snapshots=AllowedResources(("snap-1",)),
    snapshot_owners=(),
    reservations=AllowedResources(("cr-1",)),
    placement_groups=AllowedResources(("near",)),
)
TAGGED = replace(
    CEILINGS,
    subnets=AllowedResources(tags={"team": ("web", "api")}),
    security_groups=AllowedResources(tags={"team": ("web",)}),
    snapshots=AllowedResources(tags={"team": ("web",)}),
    reservations=AllowedResources(tags={"team": ("web",)}),
    placement_groups=AllowedResources(tags={"team": ("web",)}),
)
WEB, DATA = {"team": "web"}, {"team": "data"}


def of(**fields: Any) -> NodeClass:
    return replace(
        MODERN,
        **{
            "subnet_terms": (SubnetTerm(id="subnet-1"),),
            "security_group_terms": (SecurityGroupTerm(id="sg-1"),),
            **fields,
        },
    )


def snapshot(name: str) -> dict[str, Any]:
    return {"block_devices": (BlockDevice("/dev/xvdb", 20, "gp3", snapshot_id=name),)}


@pytest.mark.parametrize(
    ("fields", "reason", "message"),
    [
        (
            {"subnet_terms": (SubnetTerm(id="subnet-2"), SubnetTerm(id="subnet-1"), SubnetTerm(id="subnet-3"))},
            "SubnetNotAllowed",
            "spec.subnetSelectorTerms: the settings do not allow the subnet subnet-2, subnet-3; they allow subnet-1: "
            "select others, or name it, or a tag that it has, in nodeClasses.subnets in clusters/NAME.yaml and deploy",
        ),
        (
            {"security_group_terms": (SecurityGroupTerm(id="sg-2"),)},
            "SecurityGroupNotAllowed",
            "spec.securityGroupSelectorTerms: the settings do not allow the security group sg-2; they allow sg-1",
        ),
        (
            {"capacity_reservation_terms": (CapacityReservationTerm(id="cr-2"),)},
            "CapacityReservationNotAllowed",
            "spec.capacityReservationSelectorTerms: the settings do not allow the capacity reservation cr-2",
        ),
        (
            {"placement_group": PlacementGroupTerm("far")},
            "PlacementGroupNotAllowed",
            "spec.placementGroupSelector: the settings do not allow the placement group far; they allow near",
        ),
        (
            snapshot("snap-2"),
            "SnapshotNotAllowed",
            "spec.blockDeviceMappings[0].ebs.snapshotID: nodes may not have snap-2; the settings allow owners none, "
            "snap-1: add it to snapshots of nodeClasses in clusters/NAME.yaml and deploy",
        ),
    ],
    ids=["subnets", "security groups", "reservations", "placement group", "snapshot"],
)
def test_an_id_that_settings_without_tags_do_not_name_is_refused(
    fields: dict[str, Any], reason: str, message: str
) -> None:
    (problem,) = [one for one in find_manifest_problems(of(**fields), NAMED) if one.severity == "error"]

    assert (problem.reason, problem.severity) == (reason, "error")
    assert problem.message.startswith(message)
    assert "tag it so" not in problem.message
    assert find_manifest_problems(of(), NAMED) == []


def test_tags_that_no_allowed_resource_has_are_refused_and_allowed_ones_are_not() -> None:
    def reasons(tags: dict[str, str]) -> list[str]:
        node_class = of(
            subnet_terms=(SubnetTerm(tags),),
            security_group_terms=(SecurityGroupTerm(tags),),
            capacity_reservation_terms=(CapacityReservationTerm(tags),),
        )
        unchecked = [one.setting for one in list_unchecked_resources(node_class, TAGGED)]
        return [*(one.reason for one in find_manifest_problems(node_class, TAGGED)), *unchecked]

    assert reasons(DATA) == ["SubnetNotAllowed", "SecurityGroupNotAllowed", "CapacityReservationNotAllowed"]
    assert reasons(WEB) == []
    assert reasons({"team": "*"}) == [
        "nodeClasses.subnets",
        "nodeClasses.securityGroups",
        "nodeClasses.capacityReservations",
    ]


def test_settings_that_allow_none_refuse_every_selection() -> None:
    nothing = replace(NAMED, reservations=NONE, placement_groups=NONE)
    node_class = of(
        capacity_reservation_terms=(CapacityReservationTerm(owner="111122223333"),),
        placement_group=PlacementGroupTerm(id="pg-0123"),
    )

    assert [
        one.message.partition("; ")[2].partition(":")[0] for one in find_manifest_problems(node_class, nothing)
    ] == [
        "they allow none",
        "they allow none",
    ]


def test_what_only_the_account_shows_is_listed_with_its_setting() -> None:
    node_class = of(
        subnet_terms=(SubnetTerm(id="subnet-2"),),
        security_group_terms=(SecurityGroupTerm(name="nodes"),),
        placement_group=PlacementGroupTerm("far"),
        role=None,
        instance_profile="mine",
        image_terms=(ImageTerm(name="x", owner="111122223333"),),
        **snapshot("snap-2"),
    )
    ceilings = replace(TAGGED, account="")

    assert [(one.setting, one.text) for one in list_unchecked_resources(node_class, ceilings)] == [
        ("nodeRoles", "the role of mine"),
        ("imageOwners", "111122223333"),
        ("nodeClasses.subnets", "subnet-2"),
        ("nodeClasses.securityGroups", "nodes"),
        ("nodeClasses.placementGroups", "far"),
        ("nodeClasses.snapshots", "snap-2"),
    ]
    assert [one for one in find_manifest_problems(node_class, ceilings) if one.severity == "error"] == []


def test_a_cluster_refuses_in_the_same_words() -> None:
    node_class = of(capacity_reservation_terms=(CapacityReservationTerm(id="cr-2"),))
    reservation = {"CapacityReservationId": "cr-2", "InstanceType": "m5.large", "AvailabilityZone": "us-east-1a"}
    ceilings = replace(CEILINGS, reservations=AllowedResources(("cr-1",)))

    declared = [one for one in find_manifest_problems(node_class, ceilings) if one.severity == "error"]

    assert [one.reason for one in declared] == ["CapacityReservationNotAllowed"]
    assert {*declared} <= {*find_problems_beyond_settings(found(reservations=[reservation]), ceilings)}
