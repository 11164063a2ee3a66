"""Drift from outside, of two pools at a time: a canary proves itself before the rest follows, and a pool that only
detects keeps its nodes.
"""

from typing import Final

import pytest

from joiner_local.control_plane.kube_api import Object
from tests.e2e.eviction_checker import watched_evictions
from tests.e2e.stack_actions import Actor
from tests.e2e.test_consolidated_nodes import notes
from tests.e2e.test_pools_side_by_side import LABELS, HalfUsedPool, actor, disrupt, disrupt_until, nodes_of

pytestmark = pytest.mark.e2e

__all__ = ["actor"]

POOLS = "/apis/karpenter.sh/v1/nodepools"
KEPT: Final = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}


def condition(claim: Object, kind: str) -> str:
    conditions = claim.get("status", {}).get("conditions", ())
    return next((each["status"] for each in conditions if each["type"] == kind), "")


def claims_of(actor: Actor, pool: str) -> set[str]:
    return {one["metadata"]["name"] for one in actor.claims() if one["metadata"]["labels"][LABELS[0]] == pool}


def test_drifted_nodes_wait_for_their_canary_and_those_of_a_pool_that_only_detects_stay(actor: Actor) -> None:
    careful = {"joiner.dev/drift-canary": "1", "joiner.dev/drift-canary-time": "1h"}
    pools = (
        HalfUsedPool("careful", cpu="1200m", disruption=KEPT, annotations=careful),
        HalfUsedPool("noted", 1, disruption=KEPT, annotations={"joiner.dev/drift": "detect"}),
    )
    actor.create(*(manifest for pool in pools for manifest in pool.manifests()))
    actor.create(*(pool.deployment("web", pool.cpu) for pool in pools))
    actor.wait_running(3)
    actor.rest()
    assert nodes_of(actor) == {"careful": 2, "noted": 1}
    old, noted = claims_of(actor, "careful"), claims_of(actor, "noted")
    for pool in ("careful", "noted"):
        actor.world.kube.merge(f"{POOLS}/{pool}", {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})

    with watched_evictions(actor):
        disrupt_until(actor, lambda: len(claims_of(actor, "careful") & old) == 1, what="one old node replaced")
        [canary] = claims_of(actor, "careful") - old
        disrupt(actor)
        assert len(claims_of(actor, "careful") & old) == 1, "the canary has not been healthy for an hour"
        assert "NodePool/careful waits for its canaries" in notes(actor, "DisruptionBlocked")

        actor.world.kube.merge(
            f"{POOLS}/careful", {"metadata": {"annotations": {"joiner.dev/drift-canary-time": "1s"}}}
        )
        disrupt_until(actor, lambda: not claims_of(actor, "careful") & old, what="the other node replaced")

    assert canary in claims_of(actor, "careful")
    assert claims_of(actor, "noted") == noted
    drifted = {one["metadata"]["name"] for one in actor.claims() if condition(one, "Drifted") == "True"}
    assert drifted == noted
    actor.wait_running(3)
