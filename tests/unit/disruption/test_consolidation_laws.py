"""Laws of consolidation on random clusters, with the independent checker of plans."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.disruption import consolidation
from joiner.disruption.proposal import Proposal
from joiner.disruption.wave_choice import confirm
from joiner.planning import PlannedNode, Snapshot
from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.disruption.initialized_nodes import LONG_AGO, owned
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, HOST, Json, clusters, planned

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
Lists = dict[str, Sequence[Json]]
MOST_WAVES = 5
"""Waves until nothing is left to do. Most of these clusters need one: after it, the next proposal is empty."""
SPOT_TO_SPOT = {
    "joiner.dev/spot-to-spot-consolidation": "true",
    "joiner.dev/spot-to-spot-least-types": "1",
}
OFFERED = (tuple(CATALOGUE), ("m.2xlarge", "g.large"), ("m.xlarge", "g.large"))
"""The types that exist when a batch arrives: sometimes only large ones."""


def launched(node: PlannedNode, name: str) -> tuple[Json, Json]:
    """Return claim and Node of a planned node, initialized long ago."""
    labels = {**node.labels, "karpenter.sh/nodepool": node.pool_name}
    provider_id = f"aws:///{node.zone}/i-{name}"
    conditions = [
        {"type": type_, "status": "True", "lastTransitionTime": LONG_AGO}
        for type_ in ("Launched", "Registered", "Initialized")
    ]
    amounts = {"capacity": node.capacity.to_kube(), "allocatable": node.allocatable.to_kube()}
    taints = [taint.to_kube() for taint in node.taints]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": labels, "creationTimestamp": LONG_AGO},
        "spec": {"nodeClassRef": reference, "taints": taints},
        "status": {"providerID": provider_id, "nodeName": name, "conditions": conditions, **amounts},
    }
    joined = {HOST: name, "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
    joined["karpenter.k8s.aws/instance-tenancy"] = "default"
    made = {
        "metadata": {"name": name, "labels": {**labels, **joined}, "creationTimestamp": LONG_AGO},
        "spec": {"providerID": provider_id, "taints": taints},
        "status": {**amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return claim, made


def key(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def bound(pod: Json, node: str) -> Json:
    return owned({**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": "Running"}})


def waiting(pod: Json) -> Json:
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {**pod, "spec": spec, "status": {"phase": "Pending", "conditions": [condition]}}


def placed(
    lists: Mapping[str, Sequence[Json]], new: Sequence[PlannedNode], places: Mapping[str, str], of: str
) -> Lists:
    """Return the lists with the new nodes, and the pods on their nodes."""
    names = {node.name: f"{of}-{node.name}" for node in new}
    made = [launched(node, names[node.name]) for node in new]
    return {
        **lists,
        "nodes": [*lists["nodes"], *(node for _, node in made)],
        "nodeclaims": [*lists.get("nodeclaims", ()), *(claim for claim, _ in made)],
        "pods": [
            bound(pod, names.get(places[key(pod)], places[key(pod)])) if key(pod) in places else pod
            for pod in lists["pods"]
        ],
    }


def consolidated(pool: Json, annotations: Mapping[str, str]) -> Json:
    metadata = {**pool["metadata"], "annotations": dict(annotations)}
    return {**pool, "metadata": metadata, "spec": {**pool["spec"], "disruption": {"budgets": [{"nodes": "100%"}]}}}


@st.composite
def fragmented_clusters(draw: st.DrawFn) -> Lists:
    """Draw a cluster whose pods came in batches, each with nodes of its own, and partly ended."""
    drawn = draw(clusters())
    pools = [consolidated(pool, draw(st.sampled_from([{}, SPOT_TO_SPOT]))) for pool in drawn["nodepools"]]
    once = [pod for pod in drawn["pods"] if not pod["spec"].get("nodeName")]
    pending = [
        {
            **pod,
            "metadata": {**pod["metadata"], "name": f"{pod['metadata']['name']}-{copy}", "uid": f"{key(pod)}-{copy}"},
        }
        for copy in range(draw(st.integers(1, 4)))
        for pod in once
    ]
    there = [owned(pod) for pod in drawn["pods"] if pod["spec"].get("nodeName")]
    size = draw(st.integers(1, 4))
    lists: Lists = {**drawn, "nodepools": pools, "pods": there}
    for start in range(0, len(pending), size):
        lists = {**lists, "pods": [*lists["pods"], *pending[start : start + size]]}
        plan = planned(lists, {name: CATALOGUE[name] for name in draw(st.sampled_from(OFFERED))})
        places = {pod: node.name for node in plan.nodes for pod in node.pods}
        places |= {pod: one.node for one in plan.existing for pod in one.pods}
        lists = placed(lists, plan.nodes, places, f"n{start}")
        lists["pods"] = [pod for pod in lists["pods"] if pod["spec"].get("nodeName")]
    ended = draw(st.sets(st.integers(0, max(len(lists["pods"]) - 1, 0)), max_size=len(lists["pods"]) // 2))
    return {**lists, "pods": [pod for number, pod in enumerate(lists["pods"]) if number not in ended]}


def proposed(lists: Lists) -> Proposal:
    return consolidation.propose(
        Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=CLASSES, now=NOW, gap=0.0
    )


def without_removed(lists: Lists, proposal: Proposal) -> Lists:
    """Return the lists in which the nodes of the actions do not exist, and their pods wait."""
    claims = {claim for action in proposal.actions for claim in action.claims}
    gone = {one["status"]["nodeName"] for one in lists.get("nodeclaims", ()) if one["metadata"]["name"] in claims}
    return {
        **lists,
        "nodes": [one for one in lists["nodes"] if one["metadata"]["name"] not in gone],
        "nodeclaims": [one for one in lists.get("nodeclaims", ()) if one["metadata"]["name"] not in claims],
        "pods": [waiting(pod) if pod["spec"].get("nodeName") in gone else pod for pod in lists["pods"]],
    }


def as_plan(proposal: Proposal) -> dict[str, Any]:
    """Return the proposal in the form of a plan for the pods of its nodes."""
    nodes = [node for action in proposal.actions for node in action.replacements]
    names = {node.name for node in nodes}
    existing: dict[str, list[str]] = {}
    for action in proposal.actions:
        for pod, place in action.moves.items():
            if place not in names:
                existing.setdefault(place, []).append(pod)
    return {
        "nodes": [node.to_json() for node in nodes],
        "existing": [{"node": node, "claim": "", "pods": pods, "classes": {}} for node, pods in existing.items()],
        "pending": [],
        "pricePerHour": sum(node.price_per_hour for node in nodes),
    }


def carried_out(lists: Lists, proposal: Proposal, wave: int) -> Lists:
    nodes = [node for action in proposal.actions for node in action.replacements]
    places = {pod: place for action in proposal.actions for pod, place in action.moves.items()}
    return placed(without_removed(lists, proposal), nodes, places, f"w{wave}")


@examples(60, repeated=20)
@given(fragmented_clusters())
def test_every_wave_keeps_all_rules_and_costs_less_until_nothing_is_left_to_do(lists: Lists) -> None:
    price = float("inf")
    for wave in range(MOST_WAVES):
        proposal = proposed(lists)
        if not proposal.actions:
            break
        assert proposal.price_per_hour < price
        price = proposal.price_per_hour
        assert check_plan(without_removed(lists, proposal), CATALOGUE, as_plan(proposal), tolerance=10.0) == []
        assert all(action.saving_per_hour > 0 for action in proposal.actions)
        lists = carried_out(lists, proposal, wave)
    assert proposed(lists).actions == ()


@examples(60, repeated=20)
@given(fragmented_clusters(), st.randoms(use_true_random=False))
def test_a_proposal_does_not_depend_on_the_order_of_lists_and_is_confirmed(lists: Lists, chance: Any) -> None:
    proposal = proposed(lists)
    shuffled = {name: chance.sample(list(items), len(items)) for name, items in lists.items()}

    assert proposed(shuffled) == proposal
    assert confirm(proposal, proposed(shuffled)) == proposal
    assert Proposal.from_json(proposal.to_json()) == proposal
