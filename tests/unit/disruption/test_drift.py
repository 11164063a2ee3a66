"""Drift: which difference is found, in which order, and what the condition says."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from joiner.catalogue import Catalogue, InstanceType, Offering
from joiner.cluster import Requirements, Taint
from joiner.disruption.drift import (
    DesiredNodes,
    Drift,
    NotCompared,
    ObservedInstance,
    apply_drift,
    find_drift,
    stamp_digests,
)
from joiner.disruption.ended_capacity_reservations import has_left_reservation
from joiner.pools import (
    Image,
    LaunchTemplateVersion,
    NodeClaim,
    NodeClass,
    NodeClassProblem,
    NodeClassRef,
    NodePool,
    ResolvedNodeClass,
    SecurityGroup,
    Subnet,
    complete_class,
)
from joiner.pools.capacity_reservations import CapacityReservation
from joiner.pools.drift_hashes import build_hash_annotations
from joiner.pools.resolved_node_class import PlacementGroup

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ARM, AMD = ("kubernetes.io/arch", "arm64"), ("kubernetes.io/arch", "amd64")
FAMILY = "karpenter.k8s.aws/instance-family"
REF = NodeClassRef("EC2NodeClass", "default")
POOL = NodePool("default", REF, requirements=Requirements.from_labels(dict([AMD])))
CLASS = NodeClass("default", generation=4)
RESOLVED = ResolvedNodeClass(
    "default",
    "EC2NodeClass",
    subnets=(Subnet("subnet-a", "us-east-1a"), Subnet("subnet-b", "us-east-1b")),
    security_groups=(SecurityGroup("sg-1"), SecurityGroup("sg-2")),
    images=(
        Image("ami-arm", "arm64", Requirements.from_labels(dict([ARM]))),
        Image("ami-new", "amd64", Requirements.from_labels(dict([AMD]))),
        Image("ami-old", "amd64", Requirements.from_labels(dict([AMD]))),
    ),
    generation=4,
)
M5 = InstanceType(
    "m5.large",
    labels={**dict([AMD]), FAMILY: "m5"},
    offerings=(Offering("us-east-1a", "on-demand", 0.1), Offering("us-east-1a", "spot", 0.04, available=False)),
)
INSTANCE = ObservedInstance("ami-new", "subnet-a", frozenset({"sg-2", "sg-1"}))
DESIRED = DesiredNodes(
    {POOL.key: POOL}, {CLASS.key: CLASS}, {RESOLVED.key: RESOLVED}, Catalogue.of([M5]), {"i-1": INSTANCE}
)


def claim(**fields: Any) -> NodeClaim:
    """Return a claim of POOL and CLASS as they are, launched two hours ago."""
    known: dict[str, Any] = {
        "class_ref": REF,
        "pool": "default",
        "provider_id": "aws:///us-east-1a/i-1",
        "labels": {
            "node.kubernetes.io/instance-type": "m5.large",
            "topology.kubernetes.io/zone": "us-east-1a",
            "karpenter.sh/capacity-type": "spot",
            "kubernetes.io/arch": "amd64",
        },
        "annotations": build_hash_annotations(POOL, CLASS),
        "created": NOON - timedelta(hours=2),
    }
    return NodeClaim("default-a", **{**known, **fields}).with_condition("Launched", "True", at=NOON)


def drift(desired: DesiredNodes = DESIRED, node: NodeClaim | None = None) -> str:
    """Return ``reason: message``, what was not compared in brackets, or an empty text."""
    match find_drift(node or claim(), desired, NOON):
        case Drift(reason, message):
            return f"{reason}: {message}"
        case NotCompared(message):
            return f"({message})"
        case None:
            return ""


def resolved(**fields: Any) -> DesiredNodes:
    return replace(DESIRED, resolved={RESOLVED.key: replace(RESOLVED, **fields)})


def observed(**fields: Any) -> DesiredNodes:
    return replace(DESIRED, instances={"i-1": replace(INSTANCE, **fields)})


def test_a_node_as_it_would_be_launched_now_is_not_drifted() -> None:
    assert drift() == ""


@pytest.mark.parametrize(
    ("desired", "message"),
    [
        (
            replace(DESIRED, pools={POOL.key: replace(POOL, taints=(Taint("gpu", "NoSchedule"),))}),
            "NodePoolDrifted: the template of NodePool/default was changed after the launch",
        ),
        (
            replace(DESIRED, pools={POOL.key: replace(POOL, requirements=Requirements.from_labels({FAMILY: "c5"}))}),
            "RequirementsDrifted: it no longer meets the requirements of NodePool/default: "
            "karpenter.k8s.aws/instance-family is m5, wanted In [c5]",
        ),
        (
            replace(DESIRED, catalogue=Catalogue.of([replace(M5, name="m6.large")])),
            "InstanceTypeNotFound: m5.large is not in the catalogue of instance types",
        ),
        (
            replace(DESIRED, catalogue=Catalogue.of([replace(M5, offerings=M5.offerings[:1])])),
            "InstanceTypeNotFound: m5.large is not offered as spot in us-east-1a any more",
        ),
        (
            replace(DESIRED, classes={CLASS.key: replace(CLASS, user_data="echo")}),
            "NodeClassDrift: EC2NodeClass/default was changed after the launch",
        ),
        (observed(image="ami-old"), "AMIDrift: its image is ami-old, and EC2NodeClass/default selects ami-new now"),
        (
            resolved(images=RESOLVED.images[:1]),
            "AMIDrift: its image is ami-new, and EC2NodeClass/default selects no image for m5.large any more",
        ),
        (
            observed(security_groups=frozenset({"sg-1"})),
            "SecurityGroupDrift: its security groups are sg-1, and EC2NodeClass/default selects sg-1, sg-2 now",
        ),
        (
            observed(security_groups=frozenset({"sg-1", "sg-2", "sg-3"})),
            "SecurityGroupDrift: its security groups are sg-1, sg-2, sg-3, and EC2NodeClass/default selects sg-1, sg-2 "
            "now",
        ),
        (
            observed(subnet="subnet-c"),
            "SubnetDrift: its subnet subnet-c is not selected by EC2NodeClass/default any more",
        ),
    ],
)
def test_each_difference_has_its_reason_and_names_what_differs(desired: DesiredNodes, message: str) -> None:
    assert drift(desired) == message


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        ("pg-1", ""),
        ("pg-0", "PlacementGroupDrift: its placement group is pg-0, and EC2NodeClass/default selects pg-1 now"),
        ("", "PlacementGroupDrift: its placement group is missing, and EC2NodeClass/default selects pg-1 now"),
        (None, ""),  # a former version of the survey did not record it
    ],
)
def test_a_node_in_another_placement_group_than_that_of_its_class_is_drifted(seen: str | None, message: str) -> None:
    selecting = resolved(placement_group=PlacementGroup("pg-1", "together", "spread"))
    desired = replace(selecting, instances={"i-1": replace(INSTANCE, placement_group=seen)})

    assert drift(desired) == message


def test_a_node_of_a_class_whose_placement_group_is_gone_stays_as_it_is() -> None:
    problem = NodeClassProblem("PlacementGroupReady", "PlacementGroupNotFound", "no placement group is available")
    desired = replace(resolved(problems=(problem,)), instances={"i-1": replace(INSTANCE, placement_group="pg-0")})

    found = find_drift(claim(), desired, NOON)

    assert found == NotCompared("the placement group of EC2NodeClass/default is not known")


@pytest.mark.parametrize(
    ("selected", "capacity_type", "message"),
    [
        ("cr-1", "reserved", ""),
        (
            "cr-2",
            "reserved",
            "CapacityReservationDrift: EC2NodeClass/default selects no active capacity reservation cr-1 any more",
        ),
        ("cr-2", "on-demand", ""),  # an open reservation took the instance, as before Joiner
    ],
)
def test_a_reserved_node_is_drifted_if_its_class_does_not_select_its_reservation(
    selected: str, capacity_type: str, message: str
) -> None:
    selecting = resolved(reservations=(CapacityReservation(selected, "m5.large", "us-east-1a"),))
    desired = replace(
        selecting,
        instances={"i-1": replace(INSTANCE, reservation="cr-1")},
        catalogue=Catalogue.of([replace(M5, offerings=(Offering("us-east-1a", "on-demand", 0.1),))]),
    )
    labels = {**claim().labels, "karpenter.sh/capacity-type": capacity_type}

    assert drift(desired, claim(labels=labels)) == message


@pytest.mark.parametrize(("reservation", "left"), [("cr-1", False), ("", True), (None, False)])
def test_only_an_instance_that_is_seen_outside_reservations_has_left_its_reservation(
    reservation: str | None, left: bool
) -> None:
    reserved = claim(labels={**claim().labels, "karpenter.sh/capacity-type": "reserved"})

    assert has_left_reservation(reserved, replace(INSTANCE, reservation=reservation), NOON) is left


def test_of_several_differences_the_first_in_karpenters_order_is_the_reason() -> None:
    compared = [DESIRED]
    changes: list[dict[str, Any]] = [
        {"instances": {"i-1": replace(INSTANCE, subnet="subnet-c")}},
        {"instances": {"i-1": replace(INSTANCE, subnet="subnet-c", security_groups=frozenset({"sg-3"}))}},
        {"instances": {"i-1": ObservedInstance("ami-old", "subnet-c", frozenset({"sg-3"}))}},
        {"classes": {CLASS.key: replace(CLASS, user_data="echo")}},
        {"catalogue": Catalogue.of([replace(M5, offerings=())])},
        {"pools": {POOL.key: replace(POOL, requirements=Requirements.from_labels({FAMILY: "c5"}))}},
        {"pools": {POOL.key: replace(POOL, requirements=Requirements.from_labels({FAMILY: "c5"}), labels={"a": "b"})}},
    ]
    for change in changes:
        compared.append(replace(compared[-1], **change))

    assert [drift(desired).partition(":")[0] for desired in compared] == [
        "",
        "SubnetDrift",
        "SecurityGroupDrift",
        "AMIDrift",
        "NodeClassDrift",
        "InstanceTypeNotFound",
        "RequirementsDrifted",
        "NodePoolDrifted",
    ]


def test_fields_that_only_steer_joiner_never_drift() -> None:
    steering = replace(POOL, weight=7, replicas=3, own_annotations={"joiner.dev/drift": "detect"})

    assert drift(replace(DESIRED, pools={POOL.key: steering})) == ""


def test_claims_that_are_not_launched_leave_or_have_no_pool_are_not_compared() -> None:
    drifted = observed(image="ami-old")

    assert drift(drifted).startswith("AMIDrift")
    assert drift(drifted, replace(claim(), deletion=NOON)) == ""
    assert drift(drifted, NodeClaim("default-a", REF, pool="default")) == ""
    no_pool = "({} does not exist, is invalid, or is being deleted)".format
    assert drift(drifted, claim(pool="other")) == no_pool("NodePool/other")
    assert drift(replace(drifted, pools={POOL.key: replace(POOL, deleting=True)})) == no_pool(POOL.key)


def test_a_claim_younger_than_an_hour_may_have_a_type_that_the_catalogue_lacks() -> None:
    desired = replace(DESIRED, catalogue=Catalogue.of([replace(M5, name="m6.large")]))

    assert drift(desired, claim(created=NOON - timedelta(minutes=59))) == ""
    assert drift(desired, claim(created=NOON - timedelta(minutes=60))).startswith("InstanceTypeNotFound")
    assert drift(replace(DESIRED, catalogue=Catalogue())) == "(the catalogue of instance types is empty)"


def test_an_offering_without_capacity_is_no_drift() -> None:
    assert not any(one.available for one in M5.offerings if one.capacity_type == "spot")
    assert drift() == ""


def test_labels_that_a_claim_lacks_are_those_of_its_type() -> None:
    bare = claim(labels={name: value for name, value in claim().labels.items() if name != "kubernetes.io/arch"})

    assert drift(node=bare) == ""


@pytest.mark.parametrize(
    ("desired", "message"),
    [
        (replace(DESIRED, classes={}), "(EC2NodeClass/default does not exist)"),
        (replace(DESIRED, resolved={}), "(EC2NodeClass/default is not resolved)"),
        (resolved(generation=3), "(EC2NodeClass/default is not resolved)"),
        (replace(DESIRED, instances={}), "(instance i-1 was not described)"),
        (observed(security_groups=frozenset()), "(EC2 shows no security groups of the instance)"),
        (resolved(images=()), "(the images of EC2NodeClass/default are not known)"),
        (resolved(subnets=()), "(the subnets of EC2NodeClass/default are not known)"),
        (
            resolved(problems=(NodeClassProblem("SecurityGroupsReady", "NotFound", "none"),), security_groups=()),
            "(the security groups of EC2NodeClass/default are not known)",
        ),
    ],
)
def test_a_comparison_without_input_decides_nothing(desired: DesiredNodes, message: str) -> None:
    before = claim().with_condition("Drifted", "True", "AMIDrift", "its image is old", at=NOON)

    assert drift(desired) == message
    assert apply_drift(before, find_drift(before, desired, NOON), at=NOON) is before


def test_a_difference_counts_although_another_comparison_lacks_its_input() -> None:
    desired = replace(observed(subnet="subnet-c"), resolved={RESOLVED.key: replace(RESOLVED, images=())})

    assert drift(desired).startswith("SubnetDrift")


# The condition


def test_the_condition_has_the_reason_keeps_the_time_of_the_first_drift_and_goes() -> None:
    first, later = NOON, NOON + timedelta(hours=1)
    once = apply_drift(claim(), Drift("AMIDrift", "old image"), at=first)
    again = apply_drift(once, Drift("NodePoolDrifted", "changed"), at=later)

    condition = again.conditions["Drifted"]
    assert (condition.status, condition.reason, condition.message) == ("True", "NodePoolDrifted", "changed")
    assert condition.since == first
    assert apply_drift(again, Drift("NodePoolDrifted", "changed"), at=later) is again
    assert apply_drift(again, None, at=later).conditions == claim().conditions
    untouched = claim()
    assert apply_drift(untouched, None, at=later) is untouched


def test_drift_does_not_change_whether_a_claim_is_ready() -> None:
    ready = claim().as_registered("node-a", at=NOON).as_initialized(at=NOON)

    assert apply_drift(ready, Drift("AMIDrift", "old image"), at=NOON).conditions.true("Ready")


# Claims of another version, and legacy kinds


def test_a_claim_of_karpenter_gets_the_present_digests_instead_of_being_drifted() -> None:
    theirs = {
        "karpenter.sh/nodepool-hash": "1234567890",
        "karpenter.sh/nodepool-hash-version": "v3",
        "karpenter.k8s.aws/ec2nodeclass-hash": "987",
        "karpenter.k8s.aws/ec2nodeclass-hash-version": "v6",
    }
    adopted = claim(annotations=theirs)

    assert drift(node=adopted) == ""
    stamped = stamp_digests(adopted, DESIRED)
    assert stamped == build_hash_annotations(POOL, CLASS)
    assert stamp_digests(claim(annotations={**theirs, **stamped}), DESIRED) == {}
    assert stamp_digests(claim(annotations={}), DESIRED) == stamped


def test_a_claim_of_karpenter_that_was_drifted_stays_drifted() -> None:
    theirs = {"karpenter.sh/nodepool-hash": "1234567890", "karpenter.sh/nodepool-hash-version": "v3"}
    adopted = claim(annotations=theirs).with_condition("Drifted", "True", "NodePoolDrifted", at=NOON)

    stamped = stamp_digests(adopted, DESIRED)
    assert stamped == {
        "karpenter.k8s.aws/ec2nodeclass-hash-version": "joiner-v1",
        "karpenter.sh/nodepool-hash-version": "joiner-v1",
    }
    after = claim(annotations={**theirs, **stamped})
    assert drift(node=after).startswith("NodePoolDrifted")


def test_a_machine_drifts_with_its_provisioner_and_its_template() -> None:
    ref = NodeClassRef("AWSNodeTemplate", "default")
    provisioner = replace(POOL, kind="Provisioner", class_ref=ref)
    template = replace(CLASS, kind="AWSNodeTemplate")
    desired = replace(
        DESIRED,
        pools={provisioner.key: provisioner},
        classes={template.key: template},
        resolved={template.key: replace(RESOLVED, kind="AWSNodeTemplate")},
    )
    machine = replace(claim(annotations=build_hash_annotations(provisioner, template)), kind="Machine", class_ref=ref)

    assert drift(desired, machine) == ""
    changed = replace(desired, pools={provisioner.key: replace(provisioner, labels={"a": "b"})})
    assert drift(changed, machine).startswith("NodePoolDrifted: the template of Provisioner/default")
    retemplated = replace(desired, classes={template.key: replace(template, user_data="echo")})
    assert drift(retemplated, machine).startswith("NodeClassDrift: AWSNodeTemplate/default")
    unstamped = replace(machine, annotations={})
    assert stamp_digests(unstamped, desired) == build_hash_annotations(provisioner, template)


def test_a_node_is_drifted_if_its_launch_template_has_other_content_now() -> None:
    first = LaunchTemplateVersion("lt-1", "mine", 1, {"ImageId": "ami-new", "UserData": "YQ=="})
    other = replace(first, version=2, data={**first.data, "UserData": "Yg=="})
    declared = replace(CLASS, launch_template="mine")
    node = claim(annotations=build_hash_annotations(POOL, complete_class(declared, first)))

    def found(now: LaunchTemplateVersion | None) -> str:
        classes = {CLASS.key: complete_class(declared, now)}
        return drift(replace(resolved(launch_template=now), classes=classes), node)

    unknown = replace(resolved(launch_template=None), classes={CLASS.key: declared})
    stamped = stamp_digests(claim(annotations={}), unknown)
    assert found(first) == found(replace(first, version=2)) == ""
    assert found(other) == (
        "NodeClassDrift: EC2NodeClass/default, or the launch template that it names, was changed after the launch"
    )
    assert found(None) == "(the launch template mine of EC2NodeClass/default was not read)"
    assert [name for name in stamped if "nodeclass" in name] == []
