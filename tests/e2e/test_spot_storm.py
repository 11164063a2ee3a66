"""Many simultaneous Spot interruption warnings: a few executions drain all nodes, and all begin in time."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor, claims_begun
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, NEVER_DISRUPTED, deployment, node_class, node_pool

pytestmark = pytest.mark.e2e

NODES = 10
# At most; about one a second while the warnings are handled, and ten of one instance each would be too many
EXECUTIONS = 5
BEGUN_WITHIN = 30.0  # seconds after the warnings
GRACE = 120  # seconds from the warning until EC2 takes a spot instance back
LIMIT = 100.0


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
    deployed.wait_running(NODES)
    deployed.rest()
    yield deployed
    deployed.clean()


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

    warned = datetime.now(UTC)
    with ThreadPoolExecutor(NODES) as hands:
        list(
            hands.map(lambda instance: standing.knob("interrupt", instanceId=instance, grace=GRACE), sorted(instances))
        )
    until(
        lambda: not instances & {each["InstanceId"] for each in standing.instances()},
        what="every interrupted instance drained and terminated",
        limit=LIMIT,
    )

    started = interrupted_since(standing, known)
    begun = [claims_begun(standing, each["executionArn"]) for each in started]
    last = max((each["startDate"] - warned).total_seconds() for each in started)
    print(
        f"\n{NODES} warnings: {len(started)} executions, {[len(each) for each in begun]} claims, the last began after "
        f"{last:.1f} s"
    )
    assert len(started) <= EXECUTIONS
    assert all(each["name"].endswith("-interrupted") for each in started)
    assert (sum(map(len, begun)), set().union(*begun)) == (NODES, claims)
    assert last < BEGUN_WITHIN
    assert (datetime.now(UTC) - warned).total_seconds() < GRACE  # so Joiner ended them, not EC2
    standing.wait_running(NODES)
