"""How the claims of one execution are divided."""

from joiner.lifecycle.retirement import RETIRED_AT_ONCE, RetirementReason, RetiringClaim
from joiner.lifecycle.retirement_waves import WAVE, split_into_waves


def retiring(number: int, reason: RetirementReason) -> list[RetiringClaim]:
    return [RetiringClaim(f"claim-{index}", reason) for index in range(number)]


def test_nodes_with_pods_are_drained_in_waves_of_a_limited_size_in_their_order() -> None:
    claims = retiring(2 * WAVE + 3, RetirementReason.DRIFTED)

    assert split_into_waves(claims) == [claims[:WAVE], claims[WAVE : 2 * WAVE], claims[2 * WAVE :]]


def test_empty_nodes_are_one_wave_and_one_other_node_among_them_changes_that() -> None:
    empty = retiring(RETIRED_AT_ONCE, RetirementReason.EMPTY)
    mixed = [*empty[: WAVE - 1], *retiring(2, RetirementReason.EXPIRED)]

    assert split_into_waves(empty) == [empty]
    assert [len(wave) for wave in split_into_waves(mixed)] == [WAVE, 1]


def test_without_claims_there_is_no_wave() -> None:
    assert split_into_waves([]) == []
