"""A rig on the stack: calls reach the API server through the proxy, waits are short, instances boot at once."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.e2e.crash.disturbed_stack import Rig
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_invariants import failed_executions

PACE: Final = 0.05
SHOWN_SECONDS: Final = 300.0


@pytest.fixture(scope="module")
def rig(deployed: Actor) -> Iterator[Rig]:
    stack = deployed.world.stack
    deployed.knob("faults/guard", cluster=stack.cluster, pki=str(stack.root / "pki"))
    deployed.record_cluster()  # the API server has another address now
    deployed.knob("faults/pace", factor=PACE)
    stack.agent_knob("boot", {"seconds": 0.1, "readySeconds": 0.1, "goneSeconds": 0.1})
    # EC2 forgets what ended longer ago than a case lasts: a thousand crashes leave thousands of instances
    before = deployed.knob("instances")
    deployed.knob("instances", pendingSeconds=0.1, stoppingSeconds=0.1, shownSeconds=SHOWN_SECONDS)
    made = Rig.of(deployed)
    made.clean()
    yield made
    deployed.reported |= failed_executions(deployed.world, ()).keys()  # they were made to fail
    deployed.knob("faults/pace", factor=1)
    deployed.knob("instances", **before)
    made.troubles.forget_launch_templates()
    stack.agent_knob("boot", {"seconds": 1.0, "readySeconds": 0.5, "goneSeconds": 1.0})
    made.clean()
