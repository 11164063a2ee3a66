"""How many failures in a row hold a pool, and for how long."""

from dataclasses import replace

from joiner.lifecycle.failed_nodes import count_failure
from joiner.pools.pool_holds import PoolHold

BOOT = 900
"""Seconds after which a node that does not become ready has failed."""


def failed(at: int, *, launched: int | None = None, device: str = "", edition: str = "first") -> PoolHold:
    return PoolHold(
        pool="NodePool/default",
        class_key="web",
        device=device,
        edition=edition,
        launched_at=at - BOOT if launched is None else launched,
        failed_at=at,
        failures=1,
        until=0,
        claim="default-1",
        cause="the node is not Ready",
    )


def waits_of_nodes_that_always_fail(device: str, nodes: int) -> list[int]:
    """Return for how many seconds the pool is held after each of these nodes; the next one is launched at once then."""
    waits, hold, at = [], None, 10_000
    for _ in range(nodes):
        hold = count_failure(hold, failed(at, device=device))
        assert hold is not None
        waits.append(hold.until - at)
        at = hold.until + BOOT
    return waits


def test_nodes_that_never_become_ready_are_replaced_after_growing_waits_from_the_second_one_on() -> None:
    assert waits_of_nodes_that_always_fail("", 9) == [0, 60, 120, 240, 480, 900, 1800, 1800, 1800]


def test_a_missing_device_makes_the_first_replacement_wait() -> None:
    assert waits_of_nodes_that_always_fail("nvidia.com/gpu", 7) == [60, 120, 240, 480, 900, 1800, 1800]


def test_nodes_that_were_launched_before_the_last_failure_do_not_count_again() -> None:
    first = count_failure(None, failed(10_000))
    assert first is not None

    assert count_failure(first, failed(10_003, launched=9_103)) is None
    second = count_failure(first, failed(11_000, launched=10_000))
    assert second is not None and second.failures == 2


def test_nodes_of_another_edition_are_counted_anew() -> None:
    many = replace(failed(10_000, launched=9_000), failures=6, until=11_800)

    corrected = count_failure(many, failed(10_500, launched=9_500, edition="second"))

    assert corrected is not None and (corrected.failures, corrected.until) == (1, 10_500)


def test_an_old_edition_does_not_replace_what_is_counted_of_the_present_one() -> None:
    present = replace(failed(10_000, launched=9_500, edition="second"), failures=3, until=10_120)

    assert count_failure(present, failed(10_100, launched=9_400, edition="first")) is None


def test_a_failure_an_hour_after_the_last_wait_is_the_first_again() -> None:
    many = replace(failed(10_000), failures=6, until=11_800)

    soon, late = count_failure(many, failed(15_400)), count_failure(many, failed(15_401))

    assert soon is not None and late is not None
    assert (soon.failures, late.failures) == (7, 1)
