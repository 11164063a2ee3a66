"""Many simultaneous Spot interruption warnings: a few executions drain all nodes, and all begin in time.

`JOINER_STORM_NODES=100` runs a larger storm.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.retirement_listing import names_of_begun_claims
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, NEVER_DISRUPTED, deployment, node_class, node_pool

pytestmark = pytest.mark.e2e

NODES = int(os.environ.get("JOINER_STORM_NODES", "10"))
# At most; about one a second while the warnings are handled, and ten of one instance each would be too many
EXECUTIONS = max(5, NODES // 5)
BEGUN_WITHIN = 30.0  # seconds after the warnings
HANDS = 20  # warnings that are sent at a time
GRACE = 120  # seconds from the warning until EC2 takes a spot instance back
LIMIT = 100.0
LAUNCHED_WITHIN = 90.0 + NODES


def spot_pool() -> Object:
    """Return a pool of nodes for one pod each: spot at first, and on-demand after the interruptions."""
    requirements = {CAPACITY_TYPE: ["spot", "on-demand"], INSTANCE_TYPE: ["m5.large"]}
    return node_pool("storm", requirements, disruption=NEVER_DISRUPTED, expireAfter="Never")


@pytest.fixture
def standing(deployed: Actor) -> Iterator[Actor]:
    """Ten Spot nodes with one pod each."""
    deployed.clean()
    deployed.create(node_class("storm"), spot_pool())
    deployed.rest()
    deployed.create(deployment("web", replicas=NODES, cpu="1500m"))
    deployed.wait_running(NODES, limit=LAUNCHED_WITHIN)
    deployed.rest()
    yield deployed
    deployed.clean()


def seconds_since(moment: datetime) -> float:
    return (datetime.now(UTC) - moment).total_seconds()


def remaining(actor: Actor) -> set[str]:
    """Return the names of the claims whose retirement has not begun."""
    return {each["metadata"]["name"] for each in actor.claims() if "deletionTimestamp" not in each["metadata"]}


def interrupted_since(actor: Actor, known: set[str]) -> list[dict[str, Any]]:
    listed = actor.world.client("stepfunctions").list_executions(stateMachineArn=actor.outputs["RetireArn"])[
        "executions"
    ]
    return [each for each in listed if each["executionArn"] not in known]


@pytest.mark.long("150 warnings in unit tests, one on the stack")
def test_ten_simultaneous_warnings_are_drained_by_a_few_executions(standing: Actor) -> None:
    instances = {each["InstanceId"] for each in standing.instances()}
    claims = {str(each["metadata"]["name"]) for each in standing.claims()}
    assert (len(instances), len(claims)) == (NODES, NODES)
    known = {each["executionArn"] for each in interrupted_since(standing, set())}

    pods = {pod["metadata"]["uid"] for pod in standing.pods("web")}

    warned = datetime.now(UTC)
    with ThreadPoolExecutor(min(NODES, HANDS)) as hands:
        list(
            hands.map(lambda instance: standing.knob("interrupt", instanceId=instance, grace=GRACE), sorted(instances))
        )
    sent = seconds_since(warned)
    until(lambda: pods - {pod["metadata"]["uid"] for pod in standing.pods("web")}, what="the first eviction")
    evicted = seconds_since(warned)
    until(lambda: not claims & remaining(standing), what="the retirement of every claim begun")
    handled = seconds_since(warned)
    until(
        lambda: not instances & {each["InstanceId"] for each in standing.instances()},
        what="every interrupted instance drained and terminated",
        limit=LIMIT,
    )

    started = interrupted_since(standing, known)
    begun = [names_of_begun_claims(standing, each["executionArn"]) for each in started]
    last = max((each["startDate"] - warned).total_seconds() for each in started)
    print(
        f"\n{NODES} warnings in {sent:.1f} s: {len(started)} executions, {[len(each) for each in begun]} claims, the "
        f"last began after {last:.1f} s; the first pod was evicted after {evicted:.1f} s, the last claim was handled "
        f"after {handled:.1f} s"
    )
    assert len(started) <= EXECUTIONS
    assert all(each["name"].endswith("-interrupted") for each in started)
    assert (sum(map(len, begun)), set().union(*begun)) == (NODES, claims)
    assert last <= handled < BEGUN_WITHIN
    assert seconds_since(warned) < GRACE  # so Joiner ended them, not EC2
    standing.wait_running(NODES)
