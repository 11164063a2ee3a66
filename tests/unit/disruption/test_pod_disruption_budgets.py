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
from joiner.disruption.evictions_left import EvictionsLeft
from joiner.disruption.proposal import Proposal
from joiner.disruption.replacements import propose_replacements
from joiner.planning import Snapshot
from tests.law_settings import examples
from tests.unit.disruption.initialized_nodes import LONG_AGO, claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import NOW, cluster, proposed
from tests.unit.planning.drawn_clusters import APPS, CATALOGUE, CLASSES, Json

DRIFTED = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": LONG_AGO}
UNREADY = {"type": "Ready", "status": "False"}


@dataclass(frozen=True)
class BudgetedCluster:
    """Manifests of nodes with few pods; of each app, the numbers of evictions that its budgets allow, and whether they
    always allow the eviction of pods that are not ready.
    """

    lists: dict[str, Sequence[Json]]
    allowed: dict[str, list[int]]
    lenient: bool

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
def budgeted_clusters(draw: st.DrawFn) -> BudgetedCluster:
    """Draw three to six large nodes with one to three small pods each: all pods fit on one of them."""
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
    return BudgetedCluster(cluster(*nodes, pods=pods, poddisruptionbudgets=budgets), allowed, lenient)


def evicted_too_many(world: BudgetedCluster, removed: set[str]) -> Iterator[str]:
    """A node with more pods than a budget allows at once may be drained pod by pod, if it is the only one."""
    nodes: dict[str, list[str]] = defaultdict(list)
    for pod in world.lists["pods"]:
        if pod["spec"]["nodeName"] in removed and world.is_counted(pod):
            nodes[app_of(pod)].append(pod["spec"]["nodeName"])
    for app, where in nodes.items():
        [most] = world.allowed[app]
        if len(where) > most and len(set(where)) > 1:
            yield f"the budget of {app} allows {most}, and {len(where)} pods on {len(set(where))} nodes are evicted"


@examples(30)
@given(budgeted_clusters())
def test_consolidation_takes_no_node_that_a_budget_keeps_and_no_more_pods_than_it_allows(
    world: BudgetedCluster,
) -> None:
    proposal = proposed(world.lists)
    kept = {one.node for one in proposal.kept if one.condition == "DisruptionBlocked"}

    assert kept == world.kept_nodes()
    assert world.removed(proposal) & world.kept_nodes() == set()
    assert list(evicted_too_many(world, world.removed(proposal))) == []
    if len(world.kept_nodes()) <= 1:
        assert proposal.actions, "all pods fit on one node, and each budget allows an eviction"


def drifting(lists: dict[str, Sequence[Json]]) -> Proposal:
    """Return what is proposed when all nodes are drifted."""
    claims: list[Any] = [
        {**claim, "status": {**claim["status"], "conditions": [*claim["status"]["conditions"], DRIFTED]}}
        for claim in lists["nodeclaims"]
    ]
    snapshot = Snapshot.from_lists({**lists, "nodeclaims": claims})
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
    assert of(1).refusal([[web, web]]) == ""
    assert of(1).refusal([[web, web], []]) == ""
    assert of(1).refusal([[web], [web]]) == refused
    assert of(0).refusal([[web]]) == refused.replace("1 more", "0 more")
    two = of(2)
    two.take([[web]])
    assert two.refusal([[web]]) == ""
    assert two.refusal([[web, web]]) == refused, "another node uses the budget"
