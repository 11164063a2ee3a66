"""Which retirements one sweep requests: each claim once, those without an execution first, and not too many at once."""

from dataclasses import replace

from joiner.lifecycle.checks.cluster_survey import DueRetirement
from joiner.lifecycle.due_retirements import DUE_AT_ONCE, choose_retirements
from joiner.lifecycle.retirement import RETIRED_AT_ONCE, RetirementReason
from tests.unit.lifecycle.joining_nodes import claim


def due(name: str, reason: RetirementReason) -> DueRetirement:
    return DueRetirement(replace(claim(), name=name), reason, f"{name} is {reason}")


def chosen(*found: DueRetirement, owned: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    return [(each.claim.name, each.reason) for each in choose_retirements(found, owned)]


def test_a_claim_that_several_checks_find_is_retired_for_its_first_reason() -> None:
    assert chosen(due("a", RetirementReason.EXPIRED), due("a", RetirementReason.EMPTY)) == [
        ("a", RetirementReason.EXPIRED)
    ]


def test_claims_that_an_execution_retires_come_last() -> None:
    assert chosen(due("a", RetirementReason.EXPIRED), due("b", RetirementReason.EMPTY), owned=("a",)) == [
        ("b", RetirementReason.EMPTY),
        ("a", RetirementReason.EXPIRED),
    ]


def test_one_sweep_requests_a_limited_number_of_empty_nodes_and_of_all_nodes() -> None:
    empty = [due(f"empty-{number:03}", RetirementReason.EMPTY) for number in range(150)]
    expired = [due(f"expired-{number:03}", RetirementReason.EXPIRED) for number in range(150)]
    names = [name for name, _ in chosen(*empty, *expired)]

    assert len(names) == DUE_AT_ONCE
    assert names[:RETIRED_AT_ONCE] == [each.claim.name for each in empty[:RETIRED_AT_ONCE]]
    assert names[RETIRED_AT_ONCE:] == [each.claim.name for each in expired[: DUE_AT_ONCE - RETIRED_AT_ONCE]]
