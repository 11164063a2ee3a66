"""The events of a retirement that begins."""

from datetime import UTC, datetime

from joiner.lifecycle.boot_failures import BootFailure
from joiner.lifecycle.retirement import RetirementReason
from joiner.reporting.events import Event
from joiner.reporting.retirement_events import report_beginning, report_retirement
from tests.unit.lifecycle.joining_nodes import claim, node

NEVER = BootFailure("RegistrationTimeout", "its node did not register in time")


def shown(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(event.subject.kind, event.reason, event.note) for event in events]


def test_a_retirement_is_reported_on_the_claim_and_on_its_node() -> None:
    found = report_beginning(claim(), node(), RetirementReason.DRIFTED, "", None)
    note = "Retiring: it differs from what its pool or node class describes"

    assert shown(found) == [
        ("NodeClaim", "DisruptionTerminating", note),
        ("Node", "DisruptionTerminating", note),
    ]


def test_an_instance_whose_node_never_registered_has_the_cause_as_a_second_event() -> None:
    found = report_beginning(claim(), None, RetirementReason.NEVER_JOINED, "", NEVER)

    assert shown(found)[1:] == [("NodeClaim", "RegistrationTimeout", "its node did not register in time")]


def test_a_node_that_joined_is_not_reported_as_one_that_never_joined() -> None:
    joined = claim().as_registered("node-a", at=datetime(2026, 11, 28, 12, tzinfo=UTC))

    notes = [note for _, _, note in shown(report_retirement(joined, None, RetirementReason.NEVER_JOINED))]
    assert notes == ["Retiring: its node joined and never became ready for pods"]


def test_a_failure_at_the_launch_is_reported_on_claim_and_pool_instead_of_the_boot_failure() -> None:
    found = report_beginning(claim(), None, RetirementReason.LOST, "Client.VolumeLimitExceeded: no space", NEVER)

    assert [(kind, note) for kind, _, note in shown(found)[1:]] == [
        ("NodeClaim", "Client.VolumeLimitExceeded: no space"),
        ("NodePool", "Client.VolumeLimitExceeded: no space"),
    ]


def test_a_retirement_without_a_claim_has_no_event() -> None:
    assert report_beginning(None, node(), RetirementReason.LOST, "gone", NEVER) == []
