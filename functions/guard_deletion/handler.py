"""Custom resource: refuse to delete the stack while instances of Joiner run.

CloudFormation deletes every other resource of the stack after this one, so the deletion fails here before anything is
removed. `joiner uninstall --nodes keep` allows the deletion while nodes run. Launches are stopped first and a running
scale-up is awaited, so that no instance starts after the check. A refusal allows launches again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from joiner.adapters.custom_resource import Answer, LambdaContext, Request, serve
from joiner.names import ACTING, DELETING, DRAINING, KEEPING, NODECLAIM, NODEPOOL, PROVISIONER, pause_parameter

PHYSICAL_ID: Final = "joiner-deletion-guard"
NAMED: Final = 3  # claims in a message; CloudFormation shows about 1000 characters
LEASE_SECONDS: Final = 120.0  # a scale-up holds the lease for seconds; if it crashed, until the lease expires
PAUSE_SECONDS: Final = 2.0


class NodesRun(Exception):
    """Deleting the stack would leave nodes without Joiner; the message names them and the remedy."""


class ScaleUpRuns(Exception):
    """A scale-up still holds the lease, and may launch instances."""


class RunningInstance(Protocol):
    """The attributes of an instance that the message uses."""

    @property
    def id(self) -> str:
        """Return the id of the instance."""

    @property
    def tags(self) -> Mapping[str, str]:
        """Return its tags."""


class PauseParameter(Protocol):
    """The pause parameter."""

    def value(self) -> str:
        """Return the value of the parameter."""

    def write(self, value: str) -> None:
        """Write the value of the parameter."""


@dataclass(frozen=True, slots=True)
class DeletionContext:
    """What the check reads: whether the lease is held, Joiner's instances, and the clock."""

    lease_is_held: Callable[[], bool]
    instances: Callable[[], Sequence[RunningInstance]]
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def handler(event: Mapping[str, Any], context: LambdaContext) -> None:
    """Answer CloudFormation."""
    serve(event, context, act)


def act(request: Request) -> Answer:
    """Check on Delete only."""
    cluster = request.properties["Cluster"]
    if request.kind == "Delete":
        from joiner.adapters import environment
        from joiner.adapters.ec2_client import Ec2

        ec2, ledger = Ec2(environment.client("ec2")), environment.ledger()
        around = DeletionContext(
            lease_is_held=lambda: ledger.lease().is_held(int(time.time())),
            instances=lambda: ec2.instances_left_of_cluster(cluster),
        )
        refuse_deletion(cluster, environment.region(), environment.pause(), around)
    return Answer(PHYSICAL_ID)


def refuse_deletion(cluster: str, region: str, switch: PauseParameter, around: DeletionContext) -> None:
    """Raise NodesRun or ScaleUpRuns if the stack may not be deleted now.

    The guard resets only the value that it wrote itself: a pause or a drain that a person requests meanwhile stays.
    """
    before = switch.value()
    if before == KEEPING:
        return
    if before == ACTING:
        switch.write(DELETING)
    try:
        _await_the_lease(around)
        if running := around.instances():
            raise NodesRun(refusal_reason(cluster, region, running, draining=before == DRAINING))
    except Exception:
        if switch.value() == DELETING:
            switch.write(ACTING)
        raise


def _await_the_lease(around: DeletionContext) -> None:
    deadline = around.now() + LEASE_SECONDS
    while around.lease_is_held():
        if around.now() > deadline:
            raise ScaleUpRuns(
                f"a scale-up still runs after {LEASE_SECONDS:.0f} s and may launch instances: delete the stack "
                f"again later"
            )
        around.sleep(PAUSE_SECONDS)


def refusal_reason(cluster: str, region: str, running: Sequence[RunningInstance], *, draining: bool) -> str:
    """Return which claims exist, and which command to run."""
    named = [_name(each) for each in running[:NAMED]] + (
        [f"and {len(running) - NAMED} more"] if len(running) > NAMED else []
    )
    command = f"joiner uninstall --cluster {cluster} --region {region} --nodes"
    run = f"{command} drain (drains and terminates them) or {command} keep (they run on without Joiner)"
    remedy = (
        f"They are being drained; wait for: {command} drain" if draining else f"Run {run}, then delete the stack again"
    )
    way_out = f"aws ssm put-parameter --name {pause_parameter(cluster)} --value {KEEPING} --overwrite --region {region}"
    return (
        f"{len(running)} instances of Joiner run: {', '.join(named)}. Deleting the stack would leave their "
        f"nodes without a program that retires them. Nothing was removed. {remedy}. "
        f"If that command cannot run: {way_out}"
    )


def _name(instance: RunningInstance) -> str:
    claim, pool = instance.tags.get(NODECLAIM), instance.tags.get(NODEPOOL) or instance.tags.get(PROVISIONER)
    return f"{claim or 'claim unknown'} ({instance.id}, {pool or 'no pool'})"
