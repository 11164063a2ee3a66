"""Which kind of disruption a wave is: a pool that drifts for long does not keep the others from being consolidated."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import pytest

from joiner.catalogue import Catalogue
from joiner.disruption.disruption_history import DisruptionHistory
from joiner.disruption.proposal import Proposal
from joiner.disruption.wave_choice import WaveInputs, propose_wave
from joiner.planning import Snapshot
from joiner.planning.plan_policies import NO_CEILINGS
from tests.unit.disruption.initialized_nodes import LONG_AGO, claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import NOW, ON_DEMAND, cluster, pool
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, Json

REFERENCE = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}}
DRIFT = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": LONG_AGO}


def drifting_and_wasteful(*, wasteful: str = "m.2xlarge") -> Mapping[str, Sequence[Json]]:
    """Return a cluster with two drifted nodes that are too large in one pool, and a node in another."""
    old, older, other = (
        claim_and_node("old", kind="m.2xlarge", pool="drifting"),
        claim_and_node("older", kind="m.2xlarge", pool="drifting"),
        claim_and_node("other", kind=wasteful, pool="wasteful"),
    )
    for claim, _ in (old, older):
        claim["status"]["conditions"].append(DRIFT)
    pods = [
        replica(f"{name}-0", f"node-{name}", nodeSelector={**ON_DEMAND, "karpenter.sh/nodepool": where})
        for name, where in (("old", "drifting"), ("older", "drifting"), ("other", "wasteful"))
    ]
    pools = [pool(name="drifting", budgets=[{"nodes": "1"}]), pool(name="wasteful")]
    return cluster(old, older, other, pods=pods, nodepools=pools, ec2nodeclasses=[REFERENCE])


def proposed(lists: Mapping[str, Sequence[Json]], history: DisruptionHistory) -> Proposal:
    inputs = WaveInputs(Catalogue.from_json(CATALOGUE), (), CLASSES, NO_CEILINGS, history)
    return propose_wave(Snapshot.from_lists(lists), inputs, NOW)


def going(proposal: Proposal) -> list[tuple[str, str]]:
    return [(one.reason, " ".join(one.claims)) for one in proposal.actions]


@pytest.mark.parametrize("last", ["", "Underutilized", "Empty"])
def test_outdated_nodes_go_before_others_are_consolidated(last: str) -> None:
    proposal = proposed(drifting_and_wasteful(), DisruptionHistory(last_reason=last))

    assert (going(proposal), proposal.remaining) == ([("Drifted", "old")], 1)


@pytest.mark.parametrize("last", ["Drifted", "Expired", "Rebalance"])
def test_after_a_wave_of_replacements_the_other_pools_are_consolidated(last: str) -> None:
    proposal = proposed(drifting_and_wasteful(), DisruptionHistory(last_reason=last))

    assert (going(proposal), proposal.remaining) == ([("Underutilized", "other")], 2)
    assert proposal.kept == ()


def test_replacements_go_on_while_no_other_pool_has_a_node_to_consolidate() -> None:
    proposal = proposed(drifting_and_wasteful(wasteful="s.large"), DisruptionHistory(last_reason="Drifted"))

    assert going(proposal) == [("Drifted", "old")]


def test_instances_at_risk_are_replaced_before_anything_else() -> None:
    history = DisruptionHistory(last_reason="Rebalance", recommended={"old": 1})
    lists = drifting_and_wasteful()
    replacing = pool({"joiner.dev/rebalance": "replace"}, name="drifting", budgets=[{"nodes": "1"}])

    assert going(proposed({**lists, "nodepools": [replacing, lists["nodepools"][1]]}, history)) == [
        ("Rebalance", "old")
    ]


@pytest.mark.parametrize("drifted", [False, True], ids=["consolidated", "drifted"])
def test_a_pool_that_waits_after_a_failed_replacement_launches_none_for_other_pools(*, drifted: bool) -> None:
    """The pods fit on nodes of both pools, and the preferred one failed."""
    one = claim_and_node("one", kind="m.2xlarge", pool="plain")
    one[0]["status"]["conditions"] += [DRIFT] if drifted else []
    preferred = pool(name="preferred")
    preferred["spec"]["weight"] = 10
    lists = cluster(
        one,
        pods=[replica("web", "node-one", nodeSelector=ON_DEMAND)],
        nodepools=[preferred, pool(name="plain")],
        ec2nodeclasses=[REFERENCE],
    )

    def launched(**back_off: datetime) -> list[str]:
        waits = {f"NodePool/{name}": until for name, until in back_off.items()}
        actions = proposed(lists, DisruptionHistory(back_off=waits)).actions
        return [new.pool_name for action in actions for new in action.replacements]

    later = NOW + timedelta(minutes=1)
    assert launched() == ["preferred"]
    assert launched(preferred=later) == ["plain"]
    assert launched(preferred=NOW) == ["preferred"]
    assert launched(preferred=later, plain=later) == []


def test_a_pool_that_waits_after_a_failed_replacement_does_not_change_the_lower_bound() -> None:
    lists = cluster(
        claim_and_node("one", kind="m.2xlarge"),
        pods=[replica("web", "node-one", nodeSelector=ON_DEMAND)],
        ec2nodeclasses=[REFERENCE],
    )
    waits = DisruptionHistory(back_off={"NodePool/default": NOW + timedelta(minutes=1)})

    free, waiting = proposed(lists, DisruptionHistory()), proposed(lists, waits)

    assert (len(free.actions), len(waiting.actions)) == (1, 0)
    assert 0 < free.lower_bound_per_hour == waiting.lower_bound_per_hour
