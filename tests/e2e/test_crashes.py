"""The execution that holds the lease is stopped: after at most two sweeps each claim has one instance, and all pods
run.
"""

import pytest

from joiner_local.demo.change_watch import until
from tests.e2e.world import Actor, deployment

pytestmark = pytest.mark.e2e


def stop_when_entered(actor: Actor, known: list[dict[str, object]], state: str) -> None:
    """Stop the scale-up that is not among `known` as soon as it enters `state`."""

    def entered() -> str | None:
        return next(
            (e["executionArn"] for e in actor.since(known) if state in actor.states_of(e["executionArn"])), None
        )

    arn = until(entered, what=f"a scale-up in {state}", limit=30)
    actor.stop(arn)


@pytest.mark.parametrize("state", ["Launch instances", "Record launches", "Check registration"])
def test_two_sweeps_recover_from_a_stopped_lease_holder(pool: Actor, state: str) -> None:
    known = pool.executions()
    pool.create(deployment("orphans", replicas=5))
    stop_when_entered(pool, known, state)
    for _ in range(2):
        assert pool.sweep() == "SUCCEEDED"
        pool.rest()
    pool.wait_running(5)
    assert len(pool.instances()) == len(pool.claims()) == len(pool.nodes())
    pool.assert_at_rest()
