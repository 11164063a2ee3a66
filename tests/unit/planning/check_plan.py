"""Is this plan right? An answer that owes nothing to the planner.

Written from the Kubernetes documentation ("Assigning Pods to Nodes", "Pod Topology Spread Constraints", "Taints and Tolerations",
"Init Containers") on plain manifests and plain JSON. It shares no code with the library on purpose: a mistake in the library's
reading of a rule must not be made again here. It looks at the end of the plan, with every pod in its place.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal

from tests.unit.planning.kube_rules import (
    HOST,
    Amounts,
    Json,
    Spot,
    amount,
    amounts,
    check_affinity,
    check_anti_affinity,
    check_node_rules,
    check_room,
    check_spread,
    key,
    offered_labels,
    pool_allows,
)


def check_plan(lists: Mapping[str, Sequence[Json]], catalogue: Json, plan: Json, *, tolerance: float = 0.1) -> list[str]:
    """Everything that is wrong, as sentences; empty if the plan is right."""
    pods = {key(pod): pod for pod in lists.get("pods", ())}
    waiting = {name for name, pod in pods.items() if is_waiting(pod)}
    spots, wrong = spots_of(lists, plan, pods)
    wrong += check_counts(plan, waiting)
    wrong += check_offers(lists, catalogue, plan, tolerance)
    wrong += check_limits(lists, catalogue, plan)
    placed = {key(pod) for pod in waiting_in(plan, pods)}
    for spot in spots:
        wrong += check_room(spot, lists, new=spot.name in {node["name"] for node in plan["nodes"]})
    everyone = [(pod, spot) for spot in spots for pod in spot.pods]
    for pod, spot in everyone:
        if key(pod) in placed:
            wrong += check_node_rules(pod, spot)
            wrong += check_affinity(pod, spot, everyone)
            wrong += check_spread(pod, spot, everyone, spots, offered=(lists.get("nodepools", ()), catalogue))
        wrong += check_anti_affinity(pod, spot, everyone, placed)
    return sorted(set(wrong))


def is_waiting(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return not pod.get("spec", {}).get("nodeName") and any(
        c["type"] == "PodScheduled" and c["status"] == "False" and c.get("reason") == "Unschedulable" for c in conditions
    )


def waiting_in(plan: Json, pods: Mapping[str, Json]) -> Iterator[Json]:
    for place in (*plan["nodes"], *plan["existing"]):
        yield from (pods[name] for name in place["pods"] if name in pods)


def spots_of(lists: Mapping[str, Sequence[Json]], plan: Json, pods: Mapping[str, Json]) -> tuple[list[Spot], list[str]]:
    wrong: list[str] = []
    spots: dict[str, Spot] = {}
    for node in lists.get("nodes", ()):
        name = node["metadata"]["name"]
        labels = {HOST: name, **node["metadata"].get("labels", {})}
        spots[name] = Spot(name, labels, node.get("spec", {}).get("taints", []), amounts(node["status"]["allocatable"]))
    for pod in lists.get("pods", ()):
        where = pod.get("spec", {}).get("nodeName")
        if where in spots and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            spots[where].pods.append(pod)
    for place in plan["existing"]:
        if place["node"] not in spots:
            wrong.append(f"{place['node']}: is no node")
        else:
            spots[place["node"]].pods += [pods[name] for name in place["pods"]]
    for node in plan["nodes"]:
        labels = {**node["labels"], HOST: node["name"], "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
        mine = [pods[name] for name in node["pods"] if name in pods]
        spots[node["name"]] = Spot(node["name"], labels, node["taints"], amounts(node["allocatable"]), mine)
    return list(spots.values()), wrong


def check_counts(plan: Json, waiting: set[str]) -> list[str]:
    seen = Counter(name for place in (*plan["nodes"], *plan["existing"]) for name in place["pods"])
    seen.update(one["pod"] for one in plan["pending"])
    wrong = [f"{name}: is in the plan {count} times" for name, count in seen.items() if count > 1]
    wrong += [f"{name}: is nowhere in the plan" for name in waiting - seen.keys()]
    wrong += [f"{name}: is in the plan and does not wait" for name in seen.keys() - waiting]
    return wrong


def check_offers(lists: Mapping[str, Sequence[Json]], catalogue: Json, plan: Json, tolerance: float) -> list[str]:
    pools = {pool["metadata"]["name"]: pool for pool in lists.get("nodepools", ())}
    wrong = []
    for node in plan["nodes"]:
        pool = pools.get(node["nodePool"])
        if pool is None:
            wrong.append(f"{node['name']}: {node['nodePool']} is no pool")
            continue
        asked: Amounts = amounts(node["requests"])
        for offer in ({**node}, *node["alternatives"]):
            known = catalogue.get(offer["instanceType"], {"offerings": [], "labels": {}, "allocatable": {}})
            where = f"{node['name']}: {offer['capacityType']} {offer['instanceType']} in {offer['zone']}"
            sold = [one for one in known["offerings"] if (one["zone"], one["capacityType"]) == (offer["zone"], offer["capacityType"])]
            if not sold or not sold[0].get("available", True) or sold[0]["pricePerHour"] != offer["pricePerHour"]:
                wrong.append(f"{where} is not offered so")
                continue
            if not pool_allows(pool["spec"]["template"], offered_labels(pool, offer["instanceType"], known, offer)):
                wrong.append(f"{where} is not what its pool allows")
            if offer["pricePerHour"] > node["pricePerHour"] * (1 + tolerance) + 1e-9:
                wrong.append(f"{where} is much dearer")
            room = amounts(known["allocatable"])
            if any(value > room.get(name, Decimal(0)) for name, value in asked.items() if value > 0):
                wrong.append(f"{where} is too small")
        carried = {
            **offered_labels(pool, node["instanceType"], catalogue[node["instanceType"]], node),
            **{one["key"]: node["labels"].get(one["key"], "") for one in pool["spec"]["template"]["spec"].get("requirements") or ()},
        }
        wrong += [
            f"{node['name']}: label {name} should be {carried[name]}" for name in carried if node["labels"].get(name, "") != carried[name]
        ]
        if amounts(node["allocatable"]) != amounts(catalogue[node["instanceType"]]["allocatable"]):
            wrong.append(f"{node['name']}: allocatable is not that of {node['instanceType']}")
    if abs(sum(node["pricePerHour"] for node in plan["nodes"]) - plan.get("pricePerHour", 0.0)) > 1e-6:
        wrong.append("the plan's price is not the sum of its nodes")
    return wrong


def check_limits(lists: Mapping[str, Sequence[Json]], catalogue: Json, plan: Json) -> list[str]:
    wrong = []
    for pool in lists.get("nodepools", ()):
        name, limits = pool["metadata"]["name"], amounts(pool["spec"].get("limits"))
        there = [n for n in lists.get("nodes", ()) if n["metadata"].get("labels", {}).get("karpenter.sh/nodepool") == name]
        planned = [node for node in plan["nodes"] if node["nodePool"] == name]
        for resource, limit in limits.items():
            if resource == "nodes":
                used = Decimal(len(there) + len(planned))
            else:
                used = sum((amount(n["status"]["capacity"].get(resource, 0)) for n in there), Decimal(0))
                used += sum((amount(catalogue[n["instanceType"]]["capacity"].get(resource, 0)) for n in planned), Decimal(0))
            if planned and used > limit:
                wrong.append(f"{name}: {used.to_integral_value(ROUND_CEILING)} {resource} is over its limit of {limit}")
    return wrong
