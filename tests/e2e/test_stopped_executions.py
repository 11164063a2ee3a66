"""The execution that holds the lease is stopped: after at most two sweeps each claim has one instance, and all pods
run.
"""

import pytest

from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e


def stop_when_entered(actor: Actor, known: list[dict[str, object]], states: set[str]) -> None:
    """Stop the scale-up that is not among `known` as soon as it enters one of `states`."""

    def entered() -> str | None:
        return next(
            (e["executionArn"] for e in actor.since(known) if states & set(actor.states_of(e["executionArn"]))), None
        )

    arn = until(entered, what=f"a scale-up in {' or '.join(sorted(states))}", limit=90)
    actor.stop(arn)


@pytest.mark.parametrize(
    "states",
    [
        {"Launch one group", "Launch instances"},  # one launch, or several
        {"Record launches", "Record launches so far"},
        {"Check registration"},
    ],
    ids=["launching", "recording", "registering"],
)
def test_two_sweeps_recover_from_a_stopped_lease_holder(pool: Actor, states: set[str]) -> None:
    known = pool.executions()
    pool.create(deployment("orphans", replicas=5))
    stop_when_entered(pool, known, states)
    for _ in range(2):
        assert pool.sweep() == "SUCCEEDED"
        pool.rest()
    pool.wait_running(5)
    assert len(pool.instances()) == len(pool.claims()) == len(pool.nodes())
    pool.assert_at_rest()
