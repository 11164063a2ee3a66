"""Rules of pods about other pods ("Inter-pod affinity and anti-affinity", "Pod Topology Spread Constraints")."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tests.plan_checker.amounts import NOTHING, Json, Lists, Spot, amounts, asks, key, namespace_of
from tests.plan_checker.node_rules import HOST, label, likes, selects, tolerated
from tests.plan_checker.offers import fits_limits, left_of_limits, offers_of
from tests.plan_checker.volume_rules import check_volume_claim, volume_claims_of

Everyone = Sequence[tuple[Json, Spot]]


@dataclass(frozen=True)
class PlacedPods:
    """All pods on their nodes. ``placed`` are the keys of the pods that the plan places, ``buffer_pods`` the keys of
    the pods of capacity buffers. ``closing`` are the names of the nodes of blocked drains, and ``unevicted`` the keys
    of their pods that will move: these pods are there and, as replacements, on other nodes."""

    everyone: Everyone
    spots: Sequence[Spot]
    placed: frozenset[str]
    buffer_pods: frozenset[str]
    closing: frozenset[str]
    unevicted: frozenset[str]
    lists: Lists
    catalogue: Json
    meant: dict[str, list[tuple[Json, Spot]]] = field(default_factory=dict)
    counted: dict[str, tuple[Mapping[str | None, int], set[str | None]]] = field(default_factory=dict)
    """Both fields cache results, because equal pods have equal rules."""

    @cached_property
    def crowds(self) -> list[list[tuple[Json, Spot]]]:
        """Return the pods grouped by namespace and labels: a selector matches all pods of a group or none."""
        found: dict[str, list[tuple[Json, Spot]]] = defaultdict(list)
        for pod, spot in self.everyone:
            found[as_key([namespace_of(pod), labels_of(pod)])].append((pod, spot))
        return list(found.values())

    def is_replacement(self, pod: Json, spot: Spot) -> bool:
        """Return whether a pod on this node replaces one that still runs elsewhere."""
        return key(pod) in self.unevicted and spot.name not in self.closing

    @cached_property
    def without_replacements(self) -> "PlacedPods":
        """Return the scene with each pod of a blocked drain where it runs, as pods of capacity buffers see it."""
        there = self._only([one for one in self.everyone if not self.is_replacement(*one)])
        return replace(there, placed=self.placed - self.unevicted) if self.unevicted else there

    @cached_property
    def now(self) -> "PlacedPods":
        """Return the scene without pods of capacity buffers, as real pods see it."""
        there = self.without_replacements
        return there._only([one for one in there.everyone if key(one[0]) not in self.buffer_pods])

    @cached_property
    def after_the_drains(self) -> "PlacedPods":
        """Return the scene in which replacements have replaced the pods of blocked drains."""
        there = [
            (pod, spot)
            for pod, spot in self.everyone
            if key(pod) not in self.buffer_pods and not (key(pod) in self.unevicted and spot.name in self.closing)
        ]
        return replace(self._only(there), spots=[one for one in self.spots if one.name not in self.closing])

    @cached_property
    def during_the_drains(self) -> "PlacedPods":
        """Return the scene with the pods of blocked drains and their replacements."""
        return self._only([one for one in self.everyone if key(one[0]) not in self.buffer_pods])

    def _only(self, there: Everyone) -> "PlacedPods":
        return self if len(there) == len(self.everyone) else replace(self, everyone=there, meant={}, counted={})

    def those_meant(self, term: Json, owner: Json) -> list[tuple[Json, Spot]]:
        """Return the pods that a term of the owner's affinity selects."""
        question = as_key([term, namespace_of(owner), labels_of(owner)])
        if question not in self.meant:
            self.meant[question] = [
                one for crowd in self.crowds if means(term, owner, crowd[0][0], self.lists) for one in crowd
            ]
        return self.meant[question]


def as_key(what: Any) -> str:
    """Return equal text for equal values."""
    return json.dumps(what, sort_keys=True, default=str)


def check_neighbours(pod: Json, spot: Spot, scene: PlacedPods) -> list[str]:
    """Check the pod's rules about other pods. Only pods of capacity buffers count pods of capacity buffers. Pods of
    blocked drains count where they run for all pods but the replacements."""
    if key(pod) in scene.buffer_pods:
        scene = scene.without_replacements
    elif scene.is_replacement(pod, spot):
        later = scene.after_the_drains
        wrong = check_anti_affinity(pod, spot, later) + check_spread(pod, spot, later)
        # A replacement that starts while the others still run has to be beside those
        return wrong + (check_affinity(pod, spot, later) and check_affinity(pod, spot, scene.during_the_drains))
    else:
        scene = scene.now
    if spot.name in scene.closing:
        return check_anti_affinity(pod, spot, scene)
    wrong = check_anti_affinity(pod, spot, scene)
    if key(pod) in scene.placed:
        wrong += check_affinity(pod, spot, scene) + check_spread(pod, spot, scene)
    return wrong


def labels_of(pod: Json) -> Mapping[str, str]:
    return pod["metadata"].get("labels") or {}


def narrowed(term: Json, pod: Json) -> Json | None:
    """Return the selector with matchLabelKeys and mismatchLabelKeys merged into it."""
    selector = term.get("labelSelector")
    if selector is None:
        return None
    more = [
        {"key": name, "operator": operator, "values": [labels_of(pod)[name]]}
        for field_name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for name in term.get(field_name) or ()
        if name in labels_of(pod)
    ]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *more]}


def means(term: Json, owner: Json, other: Json, lists: Lists) -> bool:
    where, named = namespace_of(other), term.get("namespaces") or []
    if term.get("namespaceSelector") is None:
        reached = where in (named or [namespace_of(owner)])
    else:
        known = next((one for one in lists.get("namespaces") or () if one["metadata"]["name"] == where), None)
        labels = {**((known or {"metadata": {}})["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": where}
        reached = where in named or selects(term["namespaceSelector"], labels)
    return reached and selects(narrowed(term, owner), labels_of(other))


def required(pod: Json, kind: str) -> list[Json]:
    affinity = pod["spec"].get("affinity") or {}
    return list((affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def check_anti_affinity(pod: Json, spot: Spot, scene: PlacedPods) -> list[str]:
    """Check anti-affinity in both directions: a planned pod must not be in a domain with pods that its terms select,
    nor with pods whose terms select it."""
    wrong = []
    for term in required(pod, "podAntiAffinity"):
        domain = label(spot.labels, term["topologyKey"])
        for other, there in scene.those_meant(term, pod) if domain is not None else ():
            new = key(other) in scene.placed or key(pod) in scene.placed
            if other is not pod and new and label(there.labels, term["topologyKey"]) == domain:
                wrong.append(f"{key(other)}: is in {term['topologyKey']} {domain} with {key(pod)}, which wants it away")
    return wrong


def check_affinity(pod: Json, spot: Spot, scene: PlacedPods) -> list[str]:
    terms = required(pod, "podAffinity")
    if not terms:
        return []
    if any(label(spot.labels, term["topologyKey"]) is None for term in terms):
        return [f"{key(pod)}: {spot.name} lacks the label of its affinity"]
    meant_by_all = set.intersection(*({id(other) for other, _ in scene.those_meant(term, pod)} for term in terms)) - {
        id(pod)
    }
    selected = [(other, there) for other, there in scene.those_meant(terms[0], pod) if id(other) in meant_by_all]
    near = [
        [
            other
            for other, there in selected
            if label(there.labels, term["topologyKey"]) == label(spot.labels, term["topologyKey"])
        ]
        for term in terms
    ]
    if all(near):
        return []
    if not selected and all(means(term, pod, pod, scene.lists) for term in terms):
        return []
    return [f"{key(pod)}: no pod that its affinity selects is near {spot.name}"]


def check_spread(pod: Json, spot: Spot, scene: PlacedPods) -> list[str]:
    wrong = []
    constraints = pod["spec"].get("topologySpreadConstraints") or ()
    hard = [one for one in constraints if one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]
    for constraint in hard:
        name = constraint["topologyKey"]
        here = label(spot.labels, name)
        if here is None:
            wrong.append(f"{key(pod)}: {spot.name} has no {name} to spread over")
            continue
        counts, domains = spread_of(pod, constraint, hard, scene)
        lowest = min((counts.get(domain, 0) for domain in domains), default=0)
        if len(domains) < (constraint.get("minDomains") or 1):
            lowest = 0
        if counts.get(here, 0) - lowest > constraint["maxSkew"]:
            wrong.append(f"{key(pod)}: {name} {here} has {counts.get(here, 0)}, the emptiest {lowest}")
    return wrong


def spread_of(
    pod: Json, constraint: Json, hard: Sequence[Json], scene: PlacedPods
) -> tuple[Mapping[str | None, int], set[str | None]]:
    """Return the number of pods in each domain that the constraint counts, and the domains of the constraint."""
    name, spec = constraint["topologyKey"], {each: value for each, value in pod["spec"].items() if each != "nodeName"}
    question = as_key([constraint, namespace_of(pod), labels_of(pod), spec])
    if question not in scene.counted:
        fair = {id(one): one for one in scene.spots if counts_for(pod, constraint, hard, one)}
        domains = {label(one.labels, name) for one in fair.values()}
        domains |= possible_domains(pod, constraint, hard, scene) if name != HOST else set()
        selector = narrowed(constraint, pod)
        counts: dict[str | None, int] = defaultdict(int)
        for crowd in scene.crowds:
            other = crowd[0][0]
            if namespace_of(other) == namespace_of(pod) and selects(selector, labels_of(other)):
                for _, there in crowd:
                    counts[label(there.labels, name)] += id(there) in fair
        scene.counted[question] = dict(counts), domains
    return scene.counted[question]


def counts_for(pod: Json, constraint: Json, hard: Sequence[Json], spot: Spot) -> bool:
    """Return whether the scheduler includes this node when it counts for the constraint."""
    if any(label(spot.labels, one["topologyKey"]) is None for one in hard):
        return False
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not likes(pod["spec"], spot.labels, spot.name):
        return False
    return constraint.get("nodeTaintsPolicy", "Ignore") != "Honor" or tolerated(pod["spec"], spot.taints)


def possible_domains(pod: Json, constraint: Json, hard: Sequence[Json], scene: PlacedPods) -> set[str | None]:
    """Return the domains in which a pool could still launch a node that holds this pod, within its limits. A domain
    that is possible only for other pods does not count until they are in it."""
    found: set[str | None] = set()
    left = {pool["metadata"]["name"]: left_of_limits(scene.lists, pool) for pool in scene.lists.get("nodepools") or ()}
    for pool, labels, offering in offers_of(scene.lists, scene.catalogue):
        taints = pool["spec"]["template"]["spec"].get("taints") or []
        could_be = Spot("another", {**labels, HOST: "another"}, list(taints), {})
        here = label(labels, constraint["topologyKey"])
        if (
            here in found
            or here is None
            or not offering.get("available", True)
            or not counts_for(pod, constraint, hard, could_be)
        ):
            continue
        capacity = scene.catalogue[labels["node.kubernetes.io/instance-type"]]["capacity"]
        if not fits_limits(left[pool["metadata"]["name"]], capacity):
            continue
        own = likes(pod["spec"], could_be.labels, could_be.name) and tolerated(pod["spec"], could_be.taints)
        allocatable = amounts(scene.catalogue[labels["node.kubernetes.io/instance-type"]]["allocatable"])
        own = own and all(amount <= allocatable.get(name, NOTHING) for name, amount in asks(pod).items())
        if own and not any(
            check_volume_claim(name, claim, could_be, scene.lists) for name, claim in volume_claims_of(pod, scene.lists)
        ):
            found.add(here)
    return found
