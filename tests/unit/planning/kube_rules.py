"""The rules of the scheduler, as the Kubernetes documentation puts them, on plain manifests: what ``check_plan`` asks of each pod."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

Json = Mapping[str, Any]
Amounts = dict[str, Decimal]

SUFFIXES = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
OLD_NAMES = {"beta.kubernetes.io/arch": "kubernetes.io/arch", "beta.kubernetes.io/os": "kubernetes.io/os"}


@dataclass
class Spot:
    """A node at the end: there before, or planned."""

    name: str
    labels: dict[str, str]
    taints: list[Json]
    room: Amounts
    pods: list[Json] = field(default_factory=list)


def key(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def amount(text: Any) -> Decimal:
    said = str(text)
    for suffix, power in BINARY.items():
        if said.endswith(suffix):
            return Decimal(said[:-2]) * Decimal(2**power)
    if said[-1] in SUFFIXES:
        return Decimal(said[:-1]).scaleb(SUFFIXES[said[-1]])
    return Decimal(said)


def amounts(said: Json | None) -> Amounts:
    return {name: amount(value) for name, value in (said or {}).items()}


def plus(one: Amounts, two: Amounts) -> Amounts:
    return {name: one.get(name, Decimal(0)) + two.get(name, Decimal(0)) for name in one.keys() | two.keys()}


def most(one: Amounts, two: Amounts) -> Amounts:
    return {name: max(one.get(name, Decimal(0)), two.get(name, Decimal(0))) for name in one.keys() | two.keys()}


def asks(spec: Json) -> Amounts:
    """Sidecars run beside what starts after them; other init containers run alone, one after the other."""

    def of(container: Json) -> Amounts:
        said = container.get("resources", {})
        return amounts({**said.get("limits", {}), **said.get("requests", {})})

    running: Amounts = {}
    for container in spec.get("containers", ()):
        running = plus(running, of(container))
    beside: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") == "Always":
            beside = plus(beside, of(container))
            peak = most(peak, beside)
        else:
            peak = most(peak, plus(beside, of(container)))
    whole = {**most(plus(running, beside), peak), **amounts(spec.get("resources", {}).get("requests"))}
    return plus(plus(whole, amounts(spec.get("overhead"))), {"pods": Decimal(1)})


def check_room(spot: Spot, lists: Mapping[str, Sequence[Json]], *, new: bool) -> list[str]:
    taken: Amounts = {}
    ports: list[tuple[str, int, str]] = []
    guests = [pod["spec"] for pod in spot.pods]
    for daemon in lists.get("daemonsets", ()):
        template = daemon["spec"]["template"]["spec"]
        runs = any(owner_name(pod) == daemon["metadata"]["name"] for pod in spot.pods)
        welcome = tolerated({"spec": template}, spot.taints) and likes({"spec": template}, spot.labels, spot.name)
        if (new or not runs) and welcome and not runs:
            guests.append(template)
    for spec in guests:
        taken = plus(taken, asks(spec))
        ports += host_ports(spec)
    wrong = [
        f"{spot.name}: {name} is asked for {value} of {spot.room.get(name, 0)}"
        for name, value in taken.items()
        if value > spot.room.get(name, Decimal(0)) and value > 0
    ]
    for index, (ip, number, protocol) in enumerate(ports):
        for other_ip, other_number, other_protocol in ports[:index]:
            if (number, protocol) == (other_number, other_protocol) and (ip == other_ip or "0.0.0.0" in (ip, other_ip)):  # noqa: S104 - all addresses
                wrong.append(f"{spot.name}: port {number}/{protocol} is wanted twice")
    return wrong


def owner_name(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences", [])
    return str(next((one["name"] for one in owners if one["kind"] == "DaemonSet"), ""))


def host_ports(spec: Json) -> list[tuple[str, int, str]]:
    found = []
    for container in spec.get("containers", ()):
        for port in container.get("ports", ()):
            if port.get("hostPort"):
                found.append((port.get("hostIP", "0.0.0.0"), port["hostPort"], port.get("protocol", "TCP")))  # noqa: S104 - all addresses
    return found


def expression_holds(expression: Json, labels: Mapping[str, str]) -> bool:
    name = str(OLD_NAMES.get(expression["key"], expression["key"]))
    value, values = labels.get(name), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    if value is None or not value.removeprefix("-").removeprefix("+").isdecimal():
        return False
    bound = int(values[0])
    return {"Gt": int(value) > bound, "Lt": int(value) < bound, "Gte": int(value) >= bound, "Lte": int(value) <= bound}[
        expression["operator"]
    ]


def likes(pod: Json, labels: Mapping[str, str], name: str) -> bool:
    spec = pod["spec"]
    if any(labels.get(str(OLD_NAMES.get(label, label))) != value for label, value in (spec.get("nodeSelector") or {}).items()):
        return False
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    for term in required["nodeSelectorTerms"]:
        expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
        by_labels = all(expression_holds(one, labels) for one in expressions)
        if (expressions or fields) and by_labels and all(expression_holds(one, {"metadata.name": name}) for one in fields):
            return True
    return False


def tolerated(pod: Json, taints: Iterable[Json]) -> bool:
    return all(
        taint["effect"] == "PreferNoSchedule" or any(tolerates(one, taint) for one in pod["spec"].get("tolerations") or ())
        for taint in taints
    )


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")


def check_node_rules(pod: Json, spot: Spot) -> list[str]:
    wrong = []
    if not tolerated(pod, spot.taints):
        wrong.append(f"{key(pod)}: does not tolerate a taint of {spot.name}")
    if not likes(pod, spot.labels, spot.name):
        wrong.append(f"{key(pod)}: its node rules do not allow {spot.name}")
    return wrong


def selects(selector: Json | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    exact = all(labels.get(name) == value for name, value in (selector.get("matchLabels") or {}).items())
    return exact and all(expression_holds(one, labels) for one in selector.get("matchExpressions") or ())


def labels_of(pod: Json) -> Mapping[str, str]:
    return pod["metadata"].get("labels") or {}


def narrowed(term: Json, pod: Json) -> Json | None:
    """The selector with matchLabelKeys and mismatchLabelKeys written out."""
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


def means(term: Json, owner: Json, other: Json) -> bool:
    namespaces = term.get("namespaces") or []
    if term.get("namespaceSelector") is not None:
        there = {"kubernetes.io/metadata.name": other["metadata"].get("namespace", "default")}
        in_reach = selects(term["namespaceSelector"], there) or there["kubernetes.io/metadata.name"] in namespaces
    else:
        in_reach = other["metadata"].get("namespace", "default") in (namespaces or [owner["metadata"].get("namespace", "default")])
    return in_reach and selects(narrowed(term, owner), labels_of(other))


def required(pod: Json, kind: str) -> list[Json]:
    affinity = pod["spec"].get("affinity") or {}
    return list((affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def check_anti_affinity(pod: Json, spot: Spot, everyone: Sequence[tuple[Json, Spot]], placed: set[str]) -> list[str]:
    wrong = []
    for term in required(pod, "podAntiAffinity"):
        domain = spot.labels.get(term["topologyKey"])
        for other, there in everyone:
            new = key(other) in placed or key(pod) in placed
            if (
                other is not pod
                and new
                and domain is not None
                and there.labels.get(term["topologyKey"]) == domain
                and means(term, pod, other)
            ):
                wrong.append(f"{key(other)}: is in {term['topologyKey']} {domain} with {key(pod)}, which wants it away")
    return wrong


def check_affinity(pod: Json, spot: Spot, everyone: Sequence[tuple[Json, Spot]]) -> list[str]:
    terms = required(pod, "podAffinity")
    if not terms:
        return []
    if any(term["topologyKey"] not in spot.labels for term in terms):
        return [f"{key(pod)}: {spot.name} lacks the label of its affinity"]
    friends = [(other, there) for other, there in everyone if other is not pod and all(means(term, pod, other) for term in terms)]
    near = [
        [other for other, there in friends if there.labels.get(term["topologyKey"]) == spot.labels[term["topologyKey"]]] for term in terms
    ]
    if all(near):
        return []
    if not friends and all(means(term, pod, pod) for term in terms):
        return []
    return [f"{key(pod)}: nobody that it wants beside it is near {spot.name}"]


Offered = tuple[Sequence[Json], Json]
"""Pools and the catalogue: what nodes could still be made."""


def check_spread(pod: Json, spot: Spot, everyone: Sequence[tuple[Json, Spot]], spots: Sequence[Spot], *, offered: Offered) -> list[str]:
    wrong = []
    hard = [one for one in pod["spec"].get("topologySpreadConstraints") or () if one["whenUnsatisfiable"] == "DoNotSchedule"]
    for constraint in hard:
        name = constraint["topologyKey"]
        if name not in spot.labels:
            wrong.append(f"{key(pod)}: {spot.name} has no {name} to spread over")
            continue
        fair = [one for one in spots if counts_for(pod, constraint, hard, one)]
        domains = {one.labels[name] for one in fair} | (possible_domains(pod, constraint, hard, offered) if name != HOST else set())
        selector = narrowed(constraint, pod)
        counts: dict[str, int] = defaultdict(int)
        for other, there in everyone:
            same = other["metadata"].get("namespace", "default") == pod["metadata"].get("namespace", "default")
            if there in fair and same and selects(selector, labels_of(other)):
                counts[there.labels[name]] += 1
        lowest = min((counts[domain] for domain in domains), default=0)
        if len(domains) < (constraint.get("minDomains") or 1):
            lowest = 0
        if counts[spot.labels[name]] - lowest > constraint["maxSkew"]:
            wrong.append(f"{key(pod)}: {name} {spot.labels[name]} has {counts[spot.labels[name]]}, the emptiest {lowest}")
    return wrong


def counts_for(pod: Json, constraint: Json, hard: Sequence[Json], spot: Spot) -> bool:
    """Whether the scheduler looks at this node when it counts for the constraint."""
    if any(one["topologyKey"] not in spot.labels for one in hard):
        return False
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not likes(pod, spot.labels, spot.name):
        return False
    return constraint.get("nodeTaintsPolicy", "Ignore") != "Honor" or tolerated(pod, spot.taints)


def possible_domains(pod: Json, constraint: Json, hard: Sequence[Json], offered: Offered) -> set[str]:
    """Domains that a pool could still make a node in."""
    pools, catalogue = offered
    found = set()
    for pool in pools:
        template = pool["spec"]["template"]
        for type_name, known in catalogue.items():
            for offering in known["offerings"]:
                labels = offered_labels(pool, type_name, known, offering)
                could_be = Spot("another", {**labels, HOST: "another"}, template["spec"].get("taints") or [], {})
                made = offering.get("available", True) and pool_allows(template, labels)
                if made and constraint["topologyKey"] in labels and counts_for(pod, constraint, hard, could_be):
                    found.add(labels[constraint["topologyKey"]])
    return found


def offered_labels(pool: Json, name: str, known: Json, offering: Json) -> dict[str, str]:
    template = pool["spec"]["template"]
    return {
        **known["labels"],
        **(template.get("metadata", {}).get("labels") or {}),
        "node.kubernetes.io/instance-type": name,
        ZONE: offering["zone"],
        "karpenter.sh/capacity-type": offering["capacityType"],
        "karpenter.sh/nodepool": pool["metadata"]["name"],
    }


def pool_allows(template: Json, labels: Mapping[str, str]) -> bool:
    """A label that no type carries is the pool's to choose."""
    return all(
        expression_holds(one, labels)
        for one in template["spec"].get("requirements") or ()
        if one["key"] in labels or "kubernetes.io/" in one["key"] or "karpenter" in one["key"]
    )
