"""``check_plan``: check every rule on the finished nodes, with every pod on its node."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from tests.plan_checker.admitted import admitted, buffer_pods
from tests.plan_checker.amounts import Json, Lists, Spot, amounts, key
from tests.plan_checker.default_constraints import with_default_spreads
from tests.plan_checker.neighbours import PlacedPods, check_neighbours
from tests.plan_checker.node_rules import HOST, check_node_rules, check_overheads, check_resources, owners
from tests.plan_checker.offers import check_limits, check_offers
from tests.plan_checker.volume_rules import check_volumes

LEAVING: Final = "karpenter.sh/disrupted"
PASSING: Final = (
    "joiner.dev/filling",
    "karpenter.sh/unregistered",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
)


def check_plan(
    lists: Lists, catalogue: Json, plan: Json, *, tolerance: float = 0.1, default_spreads: Sequence[Json] = ()
) -> list[str]:
    """Return every problem of the plan as a sentence; empty if the plan is valid.

    ``lists`` are manifests by plural kind, ``catalogue`` is the output of ``joiner catalogue -o json``, ``plan``
    the output of ``joiner plan -o json``. ``tolerance`` is the maximum share by which a node's alternatives may be
    more expensive than its own offer. ``default_spreads`` are the ``defaultConstraints`` of the scheduler.
    """
    of_buffers = buffer_pods(lists)
    pods = {
        key(pod): with_default_spreads(admitted(pod, lists), lists, default_spreads)
        for pod in (*(lists.get("pods") or ()), *of_buffers)
    }
    claims = [one for kind in ("nodeclaims", "machines") for one in lists.get(kind) or ()]
    gone = {(one.get("status") or {}).get("providerID") for one in claims if is_deleted(one)}
    nodes = lists.get("nodes") or ()
    leaving = {
        one["metadata"]["name"]
        for one in nodes
        if is_leaving(one) or (one.get("spec") or {}).get("providerID", "-") in gone
    }
    marked = marked_nodes(claims, nodes)
    draining = leaving - marked
    waiting = {name for name, pod in pods.items() if is_waiting(pod, draining)} | {key(one) for one in of_buffers}
    spots, wrong = spots_of(lists, catalogue, plan, pods, leaving=leaving)
    drains = spots_of_blocked_drains(claims, nodes, pods, leaving, marked)
    closing = frozenset(spot.name for spot in drains)
    wrong += check_counts(plan, waiting)
    wrong += check_offers(lists, catalogue, plan, tolerance)
    wrong += check_limits(lists, catalogue, plan)
    placed = frozenset(key(pod) for pod in planned_in(plan, pods))
    scene = PlacedPods(
        [(pod, spot) for spot in (*spots, *drains) for pod in spot.pods],
        [*spots, *drains],
        placed,
        frozenset(map(key, of_buffers)),
        closing,
        frozenset(key(pod) for spot in drains for pod in spot.pods if will_move(pod)),
        lists,
        catalogue,
    )
    for spot in spots:
        if spot.new or any(key(pod) in placed for pod in spot.pods):
            wrong += check_resources(spot, lists)
    wrong += check_overheads(plan, spots, lists)
    for pod, spot in scene.everyone:
        if key(pod) in placed and spot.name not in closing:
            wrong += check_node_rules(pod, spot)
        wrong += check_neighbours(pod, spot, scene)
    wrong += check_volumes(spots, placed, lists)
    return sorted(set(wrong))


def spots_of_blocked_drains(
    claims: Sequence[Json], nodes: Sequence[Json], pods: Mapping[str, Json], leaving: set[str], marked: set[str]
) -> list[Spot]:
    """Return the nodes whose drain may not evict all pods and has no deadline, with the pods that it waits for; and the
    nodes that are only marked for disruption."""
    blocked = {(claim.get("status") or {}).get("providerID") for claim in claims if is_blocked(claim)}
    found = []
    for node in nodes:
        name = node["metadata"]["name"]
        if name in marked or (name in leaving and (node.get("spec") or {}).get("providerID", "-") in blocked):
            spot = spot_of_node(node)
            # Copies, because the replacements of these pods are elsewhere
            spot.pods = [dict(pod) for pod in pods.values() if pod["spec"].get("nodeName") == name and runs(pod)]
            found.append(spot)
    return found


def is_blocked(claim: Json) -> bool:
    """Return whether the drain of the claim's node names what blocks it, and does not end within ten minutes."""
    drained = [one for one in (claim.get("status") or {}).get("conditions") or () if one["type"] == "Drained"]
    named = any(one["status"] == "Unknown" and one.get("message") and one["reason"] == "Draining" for one in drained)
    if not named or not is_deleted(claim):
        return named
    begun = datetime.fromisoformat(claim["metadata"]["deletionTimestamp"])
    ends = (claim["metadata"].get("annotations") or {}).get("karpenter.sh/nodeclaim-termination-timestamp")
    times = [datetime.fromisoformat(ends) - begun] if ends else []
    times += [duration(claim["spec"]["terminationGracePeriod"])] if "terminationGracePeriod" in claim["spec"] else []
    return min(times, default=timedelta.max) > timedelta(minutes=10)


def duration(text: str) -> timedelta:
    """
    >>> duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    units = {"h": "hours", "m": "minutes", "s": "seconds"}
    return timedelta(**{units[unit]: float(number) for number, unit in re.findall(r"([0-9.]+)([hms])", text)})


def is_leaving(node: Json) -> bool:
    tainted = any(taint["key"] == LEAVING for taint in (node.get("spec") or {}).get("taints") or ())
    return tainted or is_deleted(node)


def marked_nodes(claims: Sequence[Json], nodes: Sequence[Json]) -> set[str]:
    """Return the nodes with the taint of a disruption whose claims nothing deletes: their drain has not begun."""
    living = {(one.get("status") or {}).get("providerID") for one in claims if not is_deleted(one)} - {None, ""}
    return {
        node["metadata"]["name"]
        for node in nodes
        if is_leaving(node) and not is_deleted(node) and (node.get("spec") or {}).get("providerID") in living
    }


def is_deleted(one: Json) -> bool:
    return bool(one["metadata"].get("deletionTimestamp"))


def is_waiting(pod: Json, leaving: set[str]) -> bool:
    """Return whether the pod needs a node: it is unschedulable, or its node is being drained."""
    spec, status = pod["spec"], pod.get("status") or {}
    if not runs(pod):
        return False
    if spec.get("nodeName"):
        return spec["nodeName"] in leaving and will_move(pod)
    untried = status.get("nominatedNodeName") or spec.get("schedulingGates")
    refused = any(
        one["type"] == "PodScheduled" and one["status"] == "False" and one.get("reason") == "Unschedulable"
        for one in status.get("conditions") or ()
    )
    return refused and not untried


def runs(pod: Json) -> bool:
    """Return whether the pod is no daemon or static pod, has not ended, and is not being deleted."""
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    bound_to_node = any(owner["kind"] in ("DaemonSet", "Node") for owner in owners(pod))
    return not (ended or bound_to_node or pod["metadata"].get("deletionTimestamp"))


def will_move(pod: Json) -> bool:
    """Return whether a drain evicts the pod and its controller creates it again."""
    annotations, tolerations = pod["metadata"].get("annotations") or {}, pod["spec"].get("tolerations") or ()
    stays = "true" in (annotations.get("karpenter.sh/do-not-disrupt"), annotations.get("karpenter.sh/do-not-evict"))
    everything = any(one.get("operator") == "Exists" and one.get("key") in (None, "", LEAVING) for one in tolerations)
    return bool(owners(pod)) and not stays and not everything


def planned_in(plan: Json, pods: Mapping[str, Json]) -> Iterator[Json]:
    for place in (*plan["nodes"], *plan["existing"]):
        yield from (pods[name] for name in place["pods"] if name in pods)


def spots_of(
    lists: Lists, catalogue: Json, plan: Json, pods: Mapping[str, Json], *, leaving: set[str]
) -> tuple[list[Spot], list[str]]:
    wrong: list[str] = []
    spots: dict[str, Spot] = {}
    for node in lists.get("nodes") or ():
        name = node["metadata"]["name"]
        if name not in leaving:
            spots[name] = spot_of_node(node)
    for claim in (*(lists.get("nodeclaims") or ()), *(lists.get("machines") or ())):
        if not (claim.get("status") or {}).get("nodeName"):
            spots.setdefault(f"claim {claim['metadata']['name']}", spot_of_claim(claim, catalogue))
    for pod in pods.values():
        where = pod["spec"].get("nodeName") or (pod.get("status") or {}).get("nominatedNodeName")
        if where in spots and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            spots[where].pods.append(pod)
    for place in plan["existing"]:
        where = place["node"] or f"claim {place['claim']}"
        if where not in spots:
            wrong.append(f"{where}: is no node")
        else:
            spots[where].pods += [pods[name] for name in place["pods"] if name in pods]
    for node in plan["nodes"]:
        labels = {
            "karpenter.k8s.aws/instance-tenancy": "default",
            **node["labels"],
            HOST: node["name"],
            "karpenter.sh/registered": "true",
            "karpenter.sh/initialized": "true",
        }
        mine = [pods[name] for name in node["pods"] if name in pods]
        allocatable = amounts(node["allocatable"])
        spots[node["name"]] = Spot(
            node["name"], labels, list(node["taints"]), allocatable, mine, new=True, type=node["instanceType"]
        )
    return list(spots.values()), wrong


def spot_of_node(node: Json) -> Spot:
    name, spec, status = node["metadata"]["name"], node.get("spec") or {}, node.get("status") or {}
    taints = [taint for taint in spec.get("taints") or () if taint["key"] not in PASSING]
    if spec.get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    allocatable = amounts(status.get("allocatable") or status.get("capacity"))
    return Spot(name, {HOST: name, **(node["metadata"].get("labels") or {})}, taints, allocatable)


def spot_of_claim(claim: Json, catalogue: Json) -> Spot:
    """Return an in-flight node, as its claim describes it."""
    name, labels = claim["metadata"]["name"], claim["metadata"].get("labels") or {}
    known = catalogue.get(labels.get("node.kubernetes.io/instance-type", ""), {"labels": {}})
    allocatable = amounts((claim.get("status") or {}).get("allocatable"))
    return Spot(name, {**known["labels"], **labels, HOST: name}, list(claim["spec"].get("taints") or ()), allocatable)


def check_counts(plan: Json, waiting: set[str]) -> list[str]:
    seen = Counter(name for place in (*plan["nodes"], *plan["existing"]) for name in place["pods"])
    seen.update(one["pod"] for one in plan["pending"])
    wrong = [f"{name}: is in the plan {count} times" for name, count in seen.items() if count > 1]
    wrong += [f"{name}: is nowhere in the plan" for name in waiting - seen.keys()]
    placed = {name for place in (*plan["nodes"], *plan["existing"]) for name in place["pods"]}
    wrong += [f"{name}: is in the plan and does not wait" for name in placed - waiting]
    return wrong
