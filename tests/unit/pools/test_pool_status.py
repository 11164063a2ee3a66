"""A pool's status shows whether it can be used, and if not, what its author must do."""

from datetime import UTC, datetime

import pytest

from joiner.pools import (
    Conditions,
    InvalidManifest,
    NodeClass,
    NodeClassProblem,
    ResolvedNodeClass,
    Subnet,
    compute_pool_conditions,
)
from joiner.pools.absent_classes import explain_absent_class

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
READY = ResolvedNodeClass("default", "EC2NodeClass")


def conditions(
    *problems: InvalidManifest,
    node_class: ResolvedNodeClass | None = READY,
    legacy: bool = False,
    absent: tuple[str, str] = ("", ""),
) -> Conditions:
    return compute_pool_conditions(
        Conditions(),
        problems=problems,
        node_class=node_class,
        class_key="EC2NodeClass/default",
        absent=absent,
        generation=3,
        at=NOON,
        legacy=legacy,
    )


def test_a_good_pool_is_ready() -> None:
    assert {condition.type: condition.status for condition in conditions()} == {
        "ValidationSucceeded": "True",
        "NodeClassReady": "True",
        "Ready": "True",
    }


def test_a_valid_provisioner_has_the_condition_active() -> None:
    assert conditions(legacy=True)["Active"].true


def test_the_condition_of_an_invalid_pool_names_field_and_remedy() -> None:
    ready = conditions(InvalidManifest("NodePool/a", "spec.weight", "0", "give a number of at least 1"))["Ready"]

    assert (ready.status, ready.reason) == ("False", "ValidationFailed")
    assert ready.message == "ValidationSucceeded: spec.weight is 0: give a number of at least 1"


def test_a_warning_does_not_stop_a_pool() -> None:
    reported = conditions(InvalidManifest("NodePool/a", "spec.replicas", "2", "it has no effect yet", "warning"))

    assert reported["Ready"].true
    assert reported["ValidationSucceeded"].message == "spec.replicas is 2: it has no effect yet"


def test_an_assumption_about_a_missing_field_is_in_the_condition_of_a_usable_pool() -> None:
    reported = conditions(InvalidManifest("Provisioner/a", "spec.provider.subnetSelector", "", "it is not set", "info"))

    assert reported["Ready"].true
    assert (reported["ValidationSucceeded"].reason, reported["ValidationSucceeded"].message) == (
        "DefaultsAssumed",
        "spec.provider.subnetSelector: it is not set",
    )


def test_a_provisioner_shows_what_is_assumed_of_its_inline_class_because_that_has_no_status() -> None:
    assumed = [NodeClassProblem("AMIsReady", "FamilyAssumed", "amiFamily is not set: AL2023 is used", "info")]
    inline, modern = (ResolvedNodeClass("default", kind).with_problems(assumed) for kind in ("Inline", "EC2NodeClass"))

    reported = [conditions(node_class=one)["NodeClassReady"] for one in (inline, modern)]

    assert [(one.status, one.reason, one.message) for one in reported] == [
        ("True", "FamilyAssumed", "amiFamily is not set: AL2023 is used"),
        ("True", "NodeClassReady", ""),
    ]


KEY = "EC2NodeClass/default"
NO_SUBNET = Conditions().set("Ready", "False", "SubnetsNotFound", "SubnetsReady: no subnet has tag a = b", at=NOON)
REFUSED = NodeClass("default", conditions=NO_SUBNET)


@pytest.mark.parametrize(
    ("declared", "problems", "reason", "words"),
    [
        (None, [], "NodeClassNotFound", "EC2NodeClass/default does not exist: create it"),
        (
            NodeClass("default", deleting=True),
            [],
            "NodeClassTerminating",
            "is being deleted and waits for its 3 claims",
        ),
        (None, [InvalidManifest(KEY, "spec.role", "7", "write a text")], "NodeClassNotReady", "spec.role is 7: write"),
        (REFUSED, [], "SubnetsNotFound", "is not ready: SubnetsReady: no subnet has tag a = b"),
        (NodeClass("default"), [], "NodeClassReadinessUnknown", "has not been resolved in EC2 yet"),
    ],
    ids=["absent", "deleted", "invalid", "not ready", "not resolved"],
)
def test_a_pool_without_a_usable_class_reports_the_reason(
    declared: NodeClass | None, problems: list[InvalidManifest], reason: str, words: str
) -> None:
    absent = explain_absent_class(KEY, declared, problems, claims=3)

    ready = conditions(node_class=None, absent=absent)["NodeClassReady"]

    assert (ready.status, ready.reason) == ("False", reason)
    assert words in ready.message


def test_a_pool_reports_what_its_class_lacks() -> None:
    lacking = READY.with_problems(
        [NodeClassProblem("SubnetsReady", "SubnetsNotFound", "no subnet has tag a = b: tag some")]
    )

    ready = conditions(node_class=lacking)["Ready"]

    assert (ready.status, ready.reason) == ("False", "SubnetsNotFound")
    assert ready.message == "NodeClassReady: EC2NodeClass/default: no subnet has tag a = b: tag some"


def test_a_resolved_class_reads_back_from_json_and_shows_in_its_status() -> None:
    resolved = ResolvedNodeClass(
        "default",
        "EC2NodeClass",
        subnets=(Subnet("subnet-1", "us-east-1a", 10), Subnet("subnet-2", "us-east-1a", 20)),
        problems=(
            NodeClassProblem("AMIsReady", "FamilyAssumed", "AL2023 is used", "info"),
            NodeClassProblem("SecurityGroupsReady", "None", "tag some"),
        ),
    )

    assert ResolvedNodeClass.from_json(resolved.to_json()) == resolved
    assert not resolved.ready
    chosen = resolved.subnet_in("us-east-1a")
    assert chosen is not None
    assert chosen.id == "subnet-2"
    status = resolved.status_to_kube(Conditions(), at=NOON)["status"]
    assert [subnet["id"] for subnet in status["subnets"]] == ["subnet-2", "subnet-1"]
    assert {condition["type"]: condition["status"] for condition in status["conditions"]} == {
        "SubnetsReady": "True",
        "SecurityGroupsReady": "False",
        "AMIsReady": "True",
        "InstanceProfileReady": "True",
        "ValidationSucceeded": "True",
        "Ready": "False",
    }


def test_a_class_reports_its_fields_without_effect() -> None:
    ignored = InvalidManifest("EC2NodeClass/default", "spec.oldField", "{}", "this field has no effect yet", "warning")

    reported = READY.conditions(Conditions(), at=NOON, declared=[ignored])

    assert (reported["ValidationSucceeded"].status, reported["ValidationSucceeded"].reason) == ("True", "WithoutEffect")
    assert reported["ValidationSucceeded"].message == "spec.oldField is {}: this field has no effect yet"
    assert reported["Ready"].true
