"""Laws of consolidation on random clusters: no wave exceeds a budget, exceeds what a PodDisruptionBudget allows, or
disrupts what must not be disrupted. The rules are computed here from the manifests alone.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from joiner.disruption.proposal import Proposal
from tests.law_settings import examples
from tests.unit.disruption.test_consolidation_laws import Lists, fragmented_clusters, proposed
from tests.unit.planning.drawn_clusters import APPS, Json

PROTECTED = {"karpenter.sh/do-not-disrupt": "true"}


def annotated(manifest: Json, annotations: Mapping[str, str]) -> Json:
    known = manifest["metadata"].get("annotations") or {}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": {**known, **annotations}}}


def pod_disruption_budget(app: str, allowed: int) -> Json:
    return {
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


@st.composite
def guarded_clusters(draw: st.DrawFn) -> Lists:
    """Draw a fragmented cluster with budgets of pools and of pods, and with protected pods and nodes."""
    lists = draw(fragmented_clusters())
    guards: dict[str, Any] = {
        plural: [annotated(one, PROTECTED) if draw(st.integers(0, share)) == 0 else one for one in lists[plural]]
        for plural, share in (("pods", 7), ("nodes", 5))
    }
    allowed = {app: draw(st.sampled_from([None, 0, 1, 1])) for app in APPS}
    guards["poddisruptionbudgets"] = [
        pod_disruption_budget(app, number) for app, number in allowed.items() if number is not None
    ]
    guards["nodepools"] = [
        {**pool, "spec": {**pool["spec"], "disruption": {"budgets": [{"nodes": draw(st.sampled_from(["1", "50%"]))}]}}}
        for pool in lists["nodepools"]
    ]
    return {**lists, **guards}


def removed_nodes(lists: Lists, proposal: Proposal) -> dict[str, str]:
    """Return the pool of each node that the proposal removes, by the name of the node."""
    claims = {claim for action in proposal.actions for claim in action.claims}
    return {
        one["status"]["nodeName"]: one["metadata"]["labels"]["karpenter.sh/nodepool"]
        for one in lists.get("nodeclaims", ())
        if one["metadata"]["name"] in claims
    }


def over_budget(lists: Lists, removed: Mapping[str, str]) -> Iterator[str]:
    pools = Counter(one["metadata"]["labels"]["karpenter.sh/nodepool"] for one in lists.get("nodeclaims", ()))
    for pool in lists["nodepools"]:
        name, [budget] = pool["metadata"]["name"], pool["spec"]["disruption"]["budgets"]
        share = budget["nodes"]
        most = math.ceil(pools[name] * int(share[:-1]) / 100) if share.endswith("%") else int(share)
        if sum(of == name for of in removed.values()) > most:
            yield f"pool {name} allows {most} of {pools[name]}: {sorted(removed)}"


def evicted_too_many(lists: Lists, evicted: Sequence[Json]) -> Iterator[str]:
    """A node with more pods than a budget allows at once may be drained pod by pod, if it is the only one."""
    nodes: dict[str, list[str]] = defaultdict(list)
    for pod in evicted:
        nodes[pod["metadata"]["labels"]["app"]].append(pod["spec"]["nodeName"])
    for budget in lists["poddisruptionbudgets"]:
        app, most = budget["metadata"]["name"], budget["status"]["disruptionsAllowed"]
        if len(nodes[app]) > most and (most == 0 or len(set(nodes[app])) > 1):
            yield f"budget {app} allows {most}, and {len(nodes[app])} pods are evicted"


def is_protected(manifest: Json) -> bool:
    return (manifest["metadata"].get("annotations") or {}).items() >= PROTECTED.items()


@examples(60, repeated=30)
@given(guarded_clusters())
def test_no_wave_breaks_a_budget_or_disrupts_what_is_protected(lists: Lists) -> None:
    proposal = proposed(lists)
    removed = removed_nodes(lists, proposal)
    evicted = [pod for pod in lists["pods"] if pod["spec"].get("nodeName") in removed]

    assert list(over_budget(lists, removed)) == []
    assert list(evicted_too_many(lists, evicted)) == []
    assert [node for node in lists["nodes"] if node["metadata"]["name"] in removed and is_protected(node)] == []
    assert [pod for pod in evicted if is_protected(pod)] == []
    assert {pod for action in proposal.actions for pod in action.moves} == {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in evicted
    }
