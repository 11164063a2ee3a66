"""Laws of whole waves on random clusters with drifted nodes, deadlines, policies, limits, budgets and protections. The
rules are computed here from the manifests alone, or by the independent checker of plans.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.disruption.disruption_history import DisruptionHistory
from joiner.disruption.proposal import DisruptionAction, Proposal
from joiner.disruption.wave_choice import WaveInputs, propose_wave
from joiner.planning import Snapshot
from joiner.planning.plan_policies import NO_CEILINGS
from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.plan_checker.offers import check_limits
from tests.unit.disruption.initialized_nodes import LONG_AGO
from tests.unit.disruption.test_consolidation_guard_laws import guarded_clusters, is_protected, over_budget
from tests.unit.disruption.test_consolidation_laws import (
    NOW,
    Lists,
    as_plan,
    carried_out,
    key,
    without_removed,
)
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, ZONE, Json

DRIFT = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": LONG_AGO}
INPUTS = WaveInputs(Catalogue.from_json(CATALOGUE), (), CLASSES, NO_CEILINGS, DisruptionHistory())
MOST_WAVES = 40
BALANCE = HALF = 0.5
"""The least share of the price that is saved, in shares of the eviction cost."""


DEADLINE = "10m"
MOST_WAITS = 1
"""Waits for an evicted pod (half a minute) and its successor (five) before the last eviction, within this deadline."""


def changed_claim(claim: Json, *, drifted: bool, deadline: bool) -> Json:
    status = {**claim["status"], "conditions": [*claim["status"]["conditions"], *([DRIFT] if drifted else [])]}
    spec = {**claim["spec"], **({"terminationGracePeriod": DEADLINE} if deadline else {})}
    return {**claim, "spec": spec, "status": status}


@st.composite
def outdated_clusters(draw: st.DrawFn) -> Lists:
    """Draw a guarded cluster in which nodes drift and have deadlines, and pools have a policy and a limit of nodes."""
    lists = draw(guarded_clusters())
    share = draw(st.sampled_from([0, 1, 3]))
    claims = [
        changed_claim(one, drifted=draw(st.integers(1, 3)) <= share, deadline=draw(st.booleans()))
        for one in lists.get("nodeclaims", ())
    ]
    pools = []
    for pool in lists["nodepools"]:
        spec, policy = pool["spec"], draw(st.sampled_from(["WhenEmptyOrUnderutilized", "Balanced"]))
        nodes = draw(st.sampled_from([{}, {"nodes": str(len(claims) + draw(st.integers(0, 2)))}]))
        disruption, limits = {**spec["disruption"], "consolidationPolicy": policy}, {**spec.get("limits", {}), **nodes}
        pools.append({**pool, "spec": {**spec, "disruption": disruption, "limits": limits}})
    return {**lists, "nodeclaims": claims, "nodepools": pools}


def waved(lists: Lists, last: str = "", before: Proposal | None = None) -> Proposal:
    """Return the wave that follows one with this reason, as a first proposal or as the one after ``before``."""
    inputs = replace(INPUTS, history=DisruptionHistory(last_reason=last))
    return propose_wave(Snapshot.from_lists(lists), inputs, NOW, before)


def claims_of(lists: Lists) -> dict[str, Json]:
    return {one["metadata"]["name"]: one for one in lists["nodeclaims"]}


def node_of(claim: Json) -> str:
    return str(claim["status"]["nodeName"])


def pool_of(claim: Json) -> str:
    return str(claim["metadata"]["labels"]["karpenter.sh/nodepool"])


def pods_on(lists: Lists, node: str) -> list[Json]:
    return [pod for pod in lists["pods"] if pod["spec"].get("nodeName") == node]


def ignores_pods(action: DisruptionAction, claim: Json) -> bool:
    """Return whether pods cannot forbid it: a drifted node is drained by its deadline in any case."""
    return action.reason == "Drifted" and "terminationGracePeriod" in claim["spec"]


def removed(lists: Lists, proposal: Proposal) -> Iterator[tuple[DisruptionAction, Json]]:
    """Yield each action with each of its claims."""
    claims = claims_of(lists)
    for action in proposal.actions:
        for name in action.claims:
            yield action, claims[name]


def broken_pod_budgets(lists: Lists, proposal: Proposal) -> Iterator[str]:
    """Several nodes with pods of one budget must not have more of them than it allows now, and one with a deadline no
    more than are evicted one after the other before it."""
    pods: dict[str, list[Json]] = defaultdict(list)
    for action, claim in removed(lists, proposal):
        if not ignores_pods(action, claim):
            for pod in pods_on(lists, node_of(claim)):
                pods[pod["metadata"]["labels"]["app"]].append(claim)
    for budget in lists["poddisruptionbudgets"]:
        app, most = budget["metadata"]["name"], budget["status"]["disruptionsAllowed"]
        nodes = {node_of(claim): claim for claim in pods[app]}
        limited = any("terminationGracePeriod" in one["spec"] for one in nodes.values())
        in_time = not limited or len(pods[app]) - most <= MOST_WAITS
        if len(pods[app]) > most and not (len(nodes) == 1 and in_time and most > 0):
            yield f"budget {app} allows {most}, and {len(pods[app])} pods are evicted from {sorted(nodes)}"


def broken_protections(lists: Lists, proposal: Proposal) -> Iterator[str]:
    nodes = {one["metadata"]["name"]: one for one in lists["nodes"]}
    for action, claim in removed(lists, proposal):
        if is_protected(claim) or is_protected(nodes[node_of(claim)]):
            yield f"{node_of(claim)} is protected"
        if not ignores_pods(action, claim):
            yield from (f"{key(pod)} is protected" for pod in pods_on(lists, node_of(claim)) if is_protected(pod))


def price_of(claim: Json) -> float:
    labels = claim["metadata"]["labels"]
    where = labels[ZONE], labels["karpenter.sh/capacity-type"]
    offerings = CATALOGUE[labels["node.kubernetes.io/instance-type"]]["offerings"]
    return next(float(one["pricePerHour"]) for one in offerings if (one["zone"], one["capacityType"]) == where)


def scores(lists: Lists, action: DisruptionAction) -> dict[str, float]:
    """Return the score of each pool that loses nodes. All pods of these clusters cost one."""
    price: dict[str, float] = defaultdict(float)
    going_price: dict[str, float] = defaultdict(float)
    cost: Counter[str] = Counter()
    going_cost: Counter[str] = Counter()
    for name, claim in claims_of(lists).items():
        own = 1 + len(pods_on(lists, node_of(claim)))
        price[pool_of(claim)] += price_of(claim)
        cost[pool_of(claim)] += own
        if name in action.claims:
            going_price[pool_of(claim)] += price_of(claim)
            going_cost[pool_of(claim)] += own
    kept = 1 - sum(node.price_per_hour for node in action.replacements) / sum(going_price.values())
    return {pool: (going_price[pool] * kept / price[pool]) / (going_cost[pool] / cost[pool]) for pool in going_price}


def unbalanced(lists: Lists, proposal: Proposal) -> Iterator[str]:
    balanced = {
        pool["metadata"]["name"]
        for pool in lists["nodepools"]
        if pool["spec"]["disruption"]["consolidationPolicy"] == "Balanced"
    }
    for action in proposal.actions:
        for pool, score in scores(lists, action).items() if action.reason == "Underutilized" else ():
            if pool in balanced and score < BALANCE - 1e-9:
                yield f"{action.claims} has the score {score} in {pool}"


def costly_alternatives(lists: Lists, proposal: Proposal) -> Iterator[str]:
    """EC2 chooses among the alternatives of a node, so each of them must save money, too."""
    claims = claims_of(lists)
    for action in proposal.actions:
        if action.reason == "Underutilized" and len(action.replacements) == 1:
            [node], price = action.replacements, sum(price_of(claims[name]) for name in action.claims)
            yield from (f"{action.claims}: {one}" for one in node.alternatives if one.price_per_hour >= price)


def misplaced(lists: Lists, proposal: Proposal) -> Iterator[str]:
    """Yield the pods of removed nodes without a place, and moves of other pods."""
    for action in proposal.actions:
        pods = {key(pod) for name in action.claims for pod in pods_on(lists, node_of(claims_of(lists)[name]))}
        yield from (f"{pod}: {action.moves.get(pod, 'no place')}" for pod in pods ^ action.moves.keys())


def broken_rules(lists: Lists, proposal: Proposal) -> list[str]:
    plan = as_plan(proposal)
    pools = {node_of(claim): pool_of(claim) for _, claim in removed(lists, proposal)}
    return [
        *misplaced(lists, proposal),
        *check_plan(without_removed(lists, proposal), CATALOGUE, plan, tolerance=10.0),
        *check_limits(lists, CATALOGUE, plan),  # replacements are launched while the old nodes run
        *over_budget(lists, pools),
        *broken_pod_budgets(lists, proposal),
        *broken_protections(lists, proposal),
        *unbalanced(lists, proposal),
        *costly_alternatives(lists, proposal),
    ]


@examples(100, repeated=60)
@given(outdated_clusters())
def test_every_wave_keeps_all_rules_until_each_outdated_node_is_gone_or_has_a_reason(lists: Lists) -> None:
    price, reason = float("inf"), ""
    for wave in range(MOST_WAVES):
        proposal = waved(lists, reason)
        if not proposal.actions:
            break
        assert broken_rules(lists, proposal) == []
        if reason == proposal.actions[0].reason == "Underutilized":
            assert proposal.price_per_hour < price
        price, reason = proposal.price_per_hour, proposal.actions[0].reason
        lists = carried_out(lists, proposal, wave)

    last = waved(lists, reason)
    assert last.actions == ()
    drifted = {name for name, claim in claims_of(lists).items() if DRIFT in claim["status"]["conditions"]}
    assert drifted <= {one.claim for one in last.kept if one.condition == "DisruptionBlocked"}


@examples(50, repeated=20)
@given(outdated_clusters(), st.randoms(use_true_random=False))
def test_a_wave_does_not_depend_on_the_order_of_lists_and_is_confirmed(lists: Lists, chance: Any) -> None:
    proposal = waved(lists)
    shuffled: dict[str, Sequence[Json]] = {
        name: chance.sample(list(items), len(items)) for name, items in lists.items()
    }

    assert waved(shuffled) == proposal
    assert waved(shuffled, before=proposal) == proposal
    assert Proposal.from_json(proposal.to_json()) == proposal


@examples(50, repeated=20)
@given(outdated_clusters(), st.randoms(use_true_random=False))
def test_what_a_second_proposal_confirms_of_a_wave_keeps_all_rules_without_the_rest(lists: Lists, chance: Any) -> None:
    proposal = waved(lists)
    some = tuple(action for action in proposal.actions if chance.random() < HALF)

    confirmed = waved(lists, before=replace(proposal, actions=some))

    assert {one.claims for one in confirmed.actions} <= {one.claims for one in some}
    assert broken_rules(lists, confirmed) == []
