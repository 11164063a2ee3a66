"""PodDisruptionBudgets while nodes are chosen: how many evictions are left, and laws on clusters whose nodes are all
worth removing. Consolidation and drift take no node that a budget keeps, and no more than the budgets allow at once.
The rules are computed here from the manifests alone.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.cluster import Pod, PodDisruptionBudget
from joiner.disruption.budgets_of_pods import DrainedNode
from joiner.disruption.evictions_left import EvictionsLeft
from joiner.disruption.proposal import Proposal
from joiner.disruption.replacements import propose_replacements
from joiner.planning import Snapshot
from tests.law_settings import examples
from tests.unit.disruption.initialized_nodes import LONG_AGO, claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import NOW, ON_DEMAND, cluster, proposed, reasons
from tests.unit.planning.drawn_clusters import APPS, CATALOGUE, CLASSES, Json

DRIFTED = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": LONG_AGO}
UNREADY = {"type": "Ready", "status": "False"}


@dataclass(frozen=True)
class BudgetedCluster:
    """Manifests of nodes with few pods; of each app, the numbers of evictions that its budgets allow, and whether they
    always allow the eviction of pods that are not ready; and the nodes whose drain has a deadline.
    """

    lists: dict[str, Sequence[Json]]
    allowed: dict[str, list[int]]
    lenient: bool
    limited: frozenset[str] = frozenset()

    def is_counted(self, pod: Json) -> bool:
        """Return whether the eviction of the pod uses a budget: each does but that of an exempted pod."""
        ready = UNREADY not in pod["status"].get("conditions", ())
        return bool(self.allowed[app_of(pod)]) and (ready or not self.lenient)

    def is_kept(self, pod: Json) -> bool:
        """Return whether the eviction API refuses the pod now."""
        allowed = self.allowed[app_of(pod)]
        return len(allowed) > 1 or (self.is_counted(pod) and allowed == [0])

    def kept_nodes(self) -> set[str]:
        return {pod["spec"]["nodeName"] for pod in self.lists["pods"] if self.is_kept(pod)}

    def removed(self, proposal: Proposal) -> set[str]:
        return {f"node-{claim}" for action in proposal.actions for claim in action.claims}


def app_of(pod: Json) -> str:
    return str(pod["metadata"]["labels"]["app"])


def budget(app: str, number: int, allowed: int, *, lenient: bool) -> Json:
    selector = {"selector": {"matchLabels": {"app": app}}}
    policy = {"unhealthyPodEvictionPolicy": "AlwaysAllow"} if lenient else {}
    return {
        "metadata": {"name": f"{app}-{number}", "namespace": "default"},
        "spec": {**selector, **policy},
        "status": {"disruptionsAllowed": allowed},
    }


@st.composite
def budgeted_clusters(draw: st.DrawFn, *, deadlines: bool = False) -> BudgetedCluster:
    """Draw three to six large nodes with one to three small pods each: all pods fit on one of them. With `deadlines`,
    the drains of some nodes have one.
    """
    names = [f"n{number}" for number in range(draw(st.integers(3, 6)))]
    allowed = {app: draw(st.sampled_from([[], [0], [1], [1], [2], [2, 2]])) for app in APPS}
    lenient = draw(st.booleans())
    pods = []
    for name in names:
        for number in range(draw(st.integers(1, 3))):
            app = draw(st.sampled_from(APPS))
            pod = replica(f"{name}-{number}", f"node-{name}", app=app, cpu="100m", memory="64Mi")
            if draw(st.integers(0, 3)) == 0:
                pod = {**pod, "status": {**pod["status"], "conditions": [UNREADY]}}
            pods.append(pod)
    budgets = [
        budget(app, number, each, lenient=lenient)
        for app, of_app in allowed.items()
        for number, each in enumerate(of_app)
    ]
    nodes = [claim_and_node(name, kind="m.xlarge") for name in names]
    limited = draw(st.sets(st.sampled_from(names))) if deadlines else set()
    for claim, _ in nodes:
        if claim["metadata"]["name"] in limited:
            claim["spec"]["terminationGracePeriod"] = "5m"  # shorter than any drain one after the other
    lists = cluster(*nodes, pods=pods, poddisruptionbudgets=budgets)
    return BudgetedCluster(lists, allowed, lenient, frozenset(f"node-{name}" for name in limited))


def evicted_too_many(world: BudgetedCluster, removed: set[str]) -> Iterator[str]:
    """A node with more pods than a budget allows at once may be drained pod by pod, if it is the only one and its drain
    has no deadline.
    """
    nodes: dict[str, list[str]] = defaultdict(list)
    for pod in world.lists["pods"]:
        if pod["spec"]["nodeName"] in removed and world.is_counted(pod):
            nodes[app_of(pod)].append(pod["spec"]["nodeName"])
    for app, where in nodes.items():
        [most] = world.allowed[app]
        if len(where) > most and (len(set(where)) > 1 or set(where) & world.limited):
            yield f"the budget of {app} allows {most}, and {len(where)} pods on {len(set(where))} nodes are evicted"


@examples(30)
@given(budgeted_clusters(deadlines=True))
def test_consolidation_takes_no_node_that_a_budget_keeps_and_no_more_pods_than_it_allows(
    world: BudgetedCluster,
) -> None:
    proposal = proposed(world.lists)
    kept = {one.node for one in proposal.kept if one.condition == "DisruptionBlocked"}

    assert kept == world.kept_nodes()
    assert world.removed(proposal) & world.kept_nodes() == set()
    assert list(evicted_too_many(world, world.removed(proposal))) == []
    if len(world.kept_nodes()) <= 1 and not world.limited:
        assert proposal.actions, "all pods fit on one node, and each budget allows an eviction"


def drifting(lists: dict[str, Sequence[Json]], rollouts: Sequence[str] = ()) -> Proposal:
    """Return what is proposed when all nodes are drifted."""
    claims: list[Any] = [
        {**claim, "status": {**claim["status"], "conditions": [*claim["status"]["conditions"], DRIFTED]}}
        for claim in lists["nodeclaims"]
    ]
    snapshot = Snapshot.from_lists({**lists, "nodeclaims": claims}, rollouts=rollouts)
    return propose_replacements(snapshot, Catalogue.from_json(CATALOGUE), classes=CLASSES, now=NOW)


@examples(20)
@given(budgeted_clusters())
def test_drift_takes_each_node_but_those_that_a_budget_keeps_or_postpones(world: BudgetedCluster) -> None:
    removed = world.removed(drifting(world.lists))

    assert removed & world.kept_nodes() == set()
    assert list(evicted_too_many(world, removed)) == []
    for node in {one["metadata"]["name"] for one in world.lists["nodes"]} - removed - world.kept_nodes():
        assert list(evicted_too_many(world, {*removed, node})) != [], f"{node} could be replaced in this wave, too"


def test_a_drifted_node_with_more_pods_than_a_budget_allows_at_once_is_replaced_alone() -> None:
    pods = [replica(f"web-{number}", "node-a" if number < 2 else "node-b") for number in range(3)]
    budgets = [budget("web", 0, 1, lenient=False)]

    proposal = drifting(cluster(claim_and_node("a"), claim_and_node("b"), pods=pods, poddisruptionbudgets=budgets))

    assert [action.claims for action in proposal.actions] == [("a",)]
    assert proposal.remaining == 1


def test_a_budget_lets_one_node_with_more_pods_go_if_no_other_node_uses_it() -> None:
    web = Pod("default", "web-0", labels={"app": "web"})

    def of(allowed: int) -> EvictionsLeft:
        return EvictionsLeft([PodDisruptionBudget.from_kube(budget("web", 0, allowed, lenient=False))])

    refused = "PodDisruptionBudget default/web-0 allows 1 more evictions"
    one, both, none = DrainedNode([web]), DrainedNode([web, web]), DrainedNode([])
    assert of(1).refusal([both]) == ""
    assert of(1).refusal([both, none]) == ""
    assert of(1).refusal([one, one]) == refused
    assert of(0).refusal([one]) == refused.replace("1 more", "0 more")
    two = of(2)
    two.take([one])
    assert two.refusal([one]) == ""
    assert two.refusal([both]) == refused, "another node uses the budget"


def test_a_budget_lets_a_node_with_more_pods_go_if_they_leave_before_its_deadline() -> None:
    """Each pod that the budget does not allow now waits for the grace period of another and five minutes for its
    successor; the last one ends within its own grace period."""

    def refused(pods: int, deadline: int, allowed: int = 1, grace: int = 30) -> bool:
        left = EvictionsLeft([PodDisruptionBudget.from_kube(budget("web", 0, allowed, lenient=False))])
        web = Pod("default", "web-0", labels={"app": "web"}, grace_seconds=grace)
        return bool(left.refusal([DrainedNode([web] * pods, deadline)]))

    assert (refused(2, 359), refused(2, 360)) == (True, False)
    assert (refused(4, 1019), refused(4, 1020)) == (True, False)
    assert (refused(4, 689, allowed=2), refused(4, 690, allowed=2)) == (True, False)
    assert (refused(2, 7499, grace=3600), refused(2, 7500, grace=3600)) == (True, False)
    assert not refused(2, 1, allowed=2), "the budget allows both at once"
    assert refused(2, 86400, allowed=0)


def test_a_node_with_more_pods_than_a_budget_allows_is_consolidated_if_they_leave_before_its_deadline() -> None:
    def proposal(grace: int = 30, **spec: str) -> Proposal:
        (claim, node), other = claim_and_node("a"), claim_and_node("b", kind="m.xlarge")
        claim["spec"] |= spec
        pods = [replica(f"web-{number}", "node-a", cpu="200m") for number in range(2)]
        for pod in pods:
            pod["spec"]["terminationGracePeriodSeconds"] = grace
        pods.append(replica("full", "node-b", app="full", cpu="3", nodeSelector=ON_DEMAND))
        budgets = [budget("web", 0, 1, lenient=False)]
        return proposed(cluster((claim, node), other, pods=pods, poddisruptionbudgets=budgets))

    assert [action.claims for action in proposal().actions] == [("a",)]
    assert [action.claims for action in proposal(terminationGracePeriod="24h").actions] == [("a",)]
    refused = "Unconsolidatable: PodDisruptionBudget default/web-0 allows 1 more evictions"
    for limited in (proposal(terminationGracePeriod="5m"), proposal(grace=3600, terminationGracePeriod="2h")):
        assert limited.actions == ()
        assert reasons(limited)["node-a"] == refused


REPLACED = ("default/web-0",)
"""The pods that a rollout replaces."""


def single_replica(**more: Json) -> tuple[Json, Json]:
    """Return the pod of a Deployment that leaves by a rollout, and a budget that allows no eviction of it."""
    pod = replica("web-0", "node-a", cpu="200m", **more)
    pod["metadata"]["annotations"] = {"joiner.dev/drain": "rollout"}
    return pod, budget("web", 0, 0, lenient=False)


def test_the_budget_of_a_single_replica_that_leaves_by_a_rollout_keeps_no_node() -> None:
    pod, never = single_replica()
    nodes = claim_and_node("a"), claim_and_node("b", kind="m.xlarge")
    full = replica("full", "node-b", app="full", cpu="3", nodeSelector=ON_DEMAND)

    proposal = proposed(cluster(*nodes, pods=[pod, full], poddisruptionbudgets=[never]), rollouts=REPLACED)

    assert [(action.claims, action.moves) for action in proposal.actions] == [(("a",), {"default/web-0": "node-b"})]
    drifted = drifting(cluster(claim_and_node("a"), pods=[pod], poddisruptionbudgets=[never]), REPLACED)
    assert [action.claims for action in drifted.actions] == [("a",)]


def test_two_budgets_of_a_pod_that_leaves_by_a_rollout_keep_no_node() -> None:
    """The eviction API refuses a pod with several budgets; a rollout does not call it."""
    pod, never = single_replica()
    again = budget("web", 1, 0, lenient=False)

    drifted = drifting(cluster(claim_and_node("a"), pods=[pod], poddisruptionbudgets=[never, again]), REPLACED)

    assert [action.claims for action in drifted.actions] == [("a",)]


def test_the_budget_of_a_pod_that_no_rollout_replaces_keeps_its_node() -> None:
    """Its annotation asks for a rollout, and its Deployment cannot replace it before it leaves."""
    pod, never = single_replica()
    lists = cluster(claim_and_node("a"), claim_and_node("b"), pods=[pod], poddisruptionbudgets=[never])
    kept = "PodDisruptionBudget default/web-0 allows no eviction of pod default/web-0"

    assert reasons(proposed(lists))["node-a"] == f"DisruptionBlocked: {kept}"
    drifted = drifting(lists)
    assert [action.claims for action in drifted.actions] == [("b",)]
    assert reasons(drifted)["node-a"] == f"DisruptionBlocked: it is drifted (AMIDrift), and {kept}"


def test_the_budget_of_a_pod_that_leaves_by_a_rollout_keeps_a_node_whose_drain_has_a_deadline() -> None:
    """The rollout may not be finished when the drain deletes what is left."""
    pod, never = single_replica()
    (claim, node), other = claim_and_node("a"), claim_and_node("b", kind="m.xlarge")
    claim["spec"] |= {"terminationGracePeriod": "5m"}

    proposal = proposed(cluster((claim, node), other, pods=[pod], poddisruptionbudgets=[never]), rollouts=REPLACED)

    kept = "PodDisruptionBudget default/web-0 allows no eviction of pod default/web-0"
    assert reasons(proposal)["node-a"] == f"DisruptionBlocked: {kept}"
