"""What pools may launch: offers, prices, limits ("NodePools", "NodeOverlays" of Karpenter's documentation)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING, Decimal

from tests.plan_checker.amounts import NOTHING, Amounts, Json, Lists, amount, amounts, plus
from tests.plan_checker.node_rules import ZONE, meets

Offer = tuple[Json, dict[str, str], Json]
TENANCY = "karpenter.k8s.aws/instance-tenancy"


def offers_of(lists: Lists, catalogue: Json) -> Iterator[Offer]:
    """Yield pool, labels and offering, for everything that the pools allow."""
    for pool in lists.get("nodepools") or ():
        for name, known in catalogue.items():
            for offering in known["offerings"]:
                labels = labels_of_offer(pool, name, known, offering)
                if pool_allows(pool, labels):
                    yield pool, labels, offering


def labels_of_offer(pool: Json, name: str, known: Json, offering: Json, tenancy: str = "default") -> dict[str, str]:
    template = pool["spec"]["template"]
    own = {key: value for key, value in _template_labels(pool).items() if "beta.kubernetes.io/" not in key}
    reserved = (
        {"karpenter.k8s.aws/capacity-reservation-id": offering["reservation"]} if offering.get("reservation") else {}
    )
    return {
        **own,
        TENANCY: tenancy,
        **known["labels"],
        "node.kubernetes.io/instance-type": name,
        ZONE: offering["zone"],
        "karpenter.sh/capacity-type": offering["capacityType"],
        "karpenter.sh/nodepool": pool["metadata"]["name"],
        "karpenter.k8s.aws/ec2nodeclass": template["spec"]["nodeClassRef"]["name"],
        **reserved,
    }


def _template_labels(pool: Json) -> dict[str, str]:
    return (pool["spec"]["template"].get("metadata") or {}).get("labels") or {}


def pool_allows(pool: Json, labels: Mapping[str, str]) -> bool:
    """Return whether the pool allows a node with these labels. The pool chooses a label that no instance type has,
    unless the label describes the instance or its location."""
    requirements = pool["spec"]["template"]["spec"].get("requirements") or ()
    if any(labels.get(key, value) != value for key, value in _template_labels(pool).items()):
        return False
    decided = (
        "node.kubernetes.io/",
        "topology.kubernetes.io/",
        "topology.k8s.aws/",
        "karpenter.sh/",
        "karpenter.k8s.aws/",
    )
    return meets([one for one in requirements if one["key"] in labels or one["key"].startswith(decided)], labels)


def priced(lists: Lists, labels: Mapping[str, str], price: float) -> float:
    """Return the price after the overlay of the highest weight that applies to such nodes."""
    speaking = [one for one in overlays(lists, labels) if "price" in one["spec"] or "priceAdjustment" in one["spec"]]
    if not speaking:
        return price
    overlay = max(speaking, key=lambda one: (one["spec"].get("weight", 0), one["metadata"]["name"]))["spec"]
    if "price" in overlay:
        return float(overlay["price"])
    change = str(overlay["priceAdjustment"])
    changed = price * (1 + float(change[:-1]) / 100) if change.endswith("%") else price + float(change)
    return max(changed, 0.0)


def added(lists: Lists, labels: Mapping[str, str]) -> Amounts:
    """Return the resources that overlays add to such nodes; for each resource the overlay of the highest weight
    decides."""
    found: Amounts = {}
    for one in sorted(overlays(lists, labels), key=lambda one: (one["spec"].get("weight", 0), one["metadata"]["name"])):
        found = {**found, **amounts(one["spec"].get("capacity"))}
    return found


def overlays(lists: Lists, labels: Mapping[str, str]) -> list[Json]:
    return [one for one in lists.get("nodeoverlays") or () if meets(one["spec"].get("requirements") or (), labels)]


def sized_by_its_class(pool: Json, lists: Lists) -> bool:
    """Return whether the pool's class changes the allocatable resources of a node: the catalogue has them for the
    defaults of AL2023 only."""
    name = pool["spec"]["template"]["spec"]["nodeClassRef"]["name"]
    own: Json = next(
        (one for one in lists.get("ec2nodeclasses") or () if one["metadata"]["name"] == name), {"spec": {}}
    )
    return any(own["spec"].get(field) for field in ("kubelet", "blockDeviceMappings", "instanceStorePolicy"))


def _label(offer: Json, name: str, catalogue: Json) -> object:
    of_offering = {"topology.kubernetes.io/zone": offer["zone"], "karpenter.sh/capacity-type": offer["capacityType"]}
    return of_offering.get(name, catalogue[offer["instanceType"]]["labels"].get(name))


def check_offers(lists: Lists, catalogue: Json, plan: Json, tolerance: float) -> list[str]:
    pools = {pool["metadata"]["name"]: pool for pool in lists.get("nodepools") or ()}
    wrong = []
    for node in plan["nodes"]:
        pool = pools.get(node["nodePool"])
        if node.get("nodePoolKind") == "Provisioner":
            continue  # Only the nodes of the legacy kinds are checked here, not their requirements and prices.
        if pool is None:
            wrong.append(f"{node['name']}: {node['nodePool']} is no pool")
            continue
        least = {
            one["key"]: one["minValues"]
            for one in pool["spec"]["template"]["spec"].get("requirements") or ()
            if "minValues" in one and one["key"] != TENANCY  # every type has both
        }
        wrong += _check_alternatives(node, pool, lists, catalogue, tolerance=None if least else tolerance)
        for name, number in least.items():
            seen = {_label(one, name, catalogue) for one in node["alternatives"]} - {None}
            if len(seen) < number:
                wrong.append(f"{node['name']}: only {len(seen)} values of {name} to choose from, not {number}")
        wrong += _check_labels(node, pool, lists, catalogue)
    if abs(sum(node["pricePerHour"] for node in plan["nodes"]) - plan.get("pricePerHour", 0.0)) > 1e-6:
        wrong.append("the plan's price is not the sum of its nodes")
    return wrong + _check_supply(catalogue, plan) + _check_static(lists, plan)


def _check_alternatives(node: Json, pool: Json, lists: Lists, catalogue: Json, *, tolerance: float | None) -> list[str]:
    asked, wrong = plus(amounts(node["requests"]), amounts(node["daemonOverhead"])), list[str]()
    tenancy = node["labels"].get(TENANCY, "default")
    parts = node.get("priceParts") or {}
    beside = sum(price for part, price in parts.items() if part not in ("instance", "interruptions"))
    most = (
        _cheapest_on_demand(node, pool, lists, catalogue, tenancy) + beside if node["capacityType"] == "spot" else 0.0
    )
    for offer in (node, *node["alternatives"]):
        known = catalogue.get(offer["instanceType"], {"offerings": [], "labels": {}, "allocatable": {}})
        where = f"{node['name']}: {offer['capacityType']} {offer['instanceType']} in {offer['zone']}"
        sold = [
            (one, labels)
            for one in known["offerings"]
            for labels in [labels_of_offer(pool, offer["instanceType"], known, one, tenancy)]
            if (one["zone"], one["capacityType"]) == (offer["zone"], offer["capacityType"])
            and one.get("available", True)
            and abs(_weighed(lists, labels, dedicated(one, known, tenancy)) + beside - offer["pricePerHour"]) < 1e-9
        ]
        if not sold:
            wrong.append(f"{where} is not offered so")
            continue
        if not any(pool_allows(pool, labels) for _, labels in sold):
            wrong.append(f"{where} is not what its pool allows")
        if tolerance is not None and offer["pricePerHour"] > max(most, node["pricePerHour"] * (1 + tolerance)) + 1e-9:
            wrong.append(f"{where} is much more expensive")
        allocatable = {**amounts(known["allocatable"]), **added(lists, sold[0][1])}
        if not sized_by_its_class(pool, lists) and any(
            value > allocatable.get(name, NOTHING) for name, value in asked.items() if value > 0
        ):
            wrong.append(f"{where} is too small")
    return wrong


def dedicated(offering: Json, known: Json, tenancy: str) -> Json:
    """Return the offering at the price of its tenancy."""
    more = known.get("dedicatedSurchargePerHour", 0.0) if tenancy == "dedicated" else 0.0
    return {**offering, "pricePerHour": round(offering["pricePerHour"] + more, 10)}


def _weighed(lists: Lists, labels: Mapping[str, str], offering: Json) -> float:
    """Return the price of an offering with its overlays, and with what its interruptions cost."""
    return priced(lists, labels, offering["pricePerHour"]) + float(offering.get("interruptionsPerHour", 0.0))


def _cheapest_on_demand(node: Json, pool: Json, lists: Lists, catalogue: Json, tenancy: str) -> float:
    """Return the most that an alternative of a spot node may cost: the cheapest on-demand offer of its pool that has
    what the node requests; without such an offer, any price."""
    asked = amounts(node["requests"])
    found = [
        priced(lists, labels, dedicated(one, known, tenancy)["pricePerHour"])
        for name, known in catalogue.items()
        for one in known["offerings"]
        for labels in [labels_of_offer(pool, name, known, one, tenancy)]
        if one["capacityType"] == "on-demand" and pool_allows(pool, labels)
        for allocatable in [amounts(known["allocatable"])]
        if not any(value > allocatable.get(key, NOTHING) for key, value in asked.items() if value > 0)
    ]
    return max(found) if found else float("inf")


def _check_labels(node: Json, pool: Json, lists: Lists, catalogue: Json) -> list[str]:
    known = catalogue[node["instanceType"]]
    tenancy = node["labels"].get(TENANCY, "default")
    labels_of_node = labels_of_offer(pool, node["instanceType"], known, node)
    labels_of_node.pop(TENANCY)
    wrong = [
        f"{node['name']}: label {name} should be {labels_of_node[name]}"
        for name in labels_of_node
        if node["labels"].get(name, "") != labels_of_node[name]
    ]
    whole = {**node["labels"], TENANCY: tenancy}
    if not meets(pool["spec"]["template"]["spec"].get("requirements") or (), whole):
        wrong.append(f"{node['name']}: its labels are not what its pool requires")
    reserved = node["labels"].get("karpenter.k8s.aws/capacity-reservation-id")
    labels = {**labels_of_node, **({"karpenter.k8s.aws/capacity-reservation-id": reserved} if reserved else {})}
    if not sized_by_its_class(pool, lists) and amounts(node["allocatable"]) != {
        **amounts(known["allocatable"]),
        **added(lists, labels),
    }:
        wrong.append(f"{node['name']}: allocatable is not that of {node['instanceType']}")
    return wrong


def _check_supply(catalogue: Json, plan: Json) -> list[str]:
    """Check that no more nodes use a capacity reservation than it has instances left."""
    left = {
        (name, one["zone"], one["capacityType"]): one["count"]
        for name, known in catalogue.items()
        for one in known["offerings"]
        if one.get("count") is not None
    }
    drawn = Counter((node["instanceType"], node["zone"], node["capacityType"]) for node in plan["nodes"])
    return [
        f"{' '.join(offer)}: {number} of {left[offer]}"
        for offer, number in drawn.items()
        if offer in left and number > left[offer]
    ]


def _check_static(lists: Lists, plan: Json) -> list[str]:
    wrong = []
    for pool in lists.get("nodepools") or ():
        replicas, name = pool["spec"].get("replicas"), pool["metadata"]["name"]
        if replicas is not None:
            there = [
                one
                for one in lists.get("nodes") or ()
                if (one["metadata"].get("labels") or {}).get("karpenter.sh/nodepool") == name
            ]
            made = [node for node in plan["nodes"] if node["nodePool"] == name]
            if made and len(there) + len(made) > replicas:
                wrong.append(f"{name}: {len(there) + len(made)} nodes for {replicas} replicas")
    return wrong


def check_limits(lists: Lists, catalogue: Json, plan: Json) -> list[str]:
    wrong = []
    for pool in lists.get("nodepools") or ():
        name = pool["metadata"]["name"]
        planned = [node["instanceType"] for node in plan["nodes"] if node["nodePool"] == name]
        for resource, left in left_of_limits(lists, pool).items() if planned else ():
            more = sum((_of_a_limit(resource, catalogue[one]["capacity"]) for one in planned), NOTHING)
            if more > left:
                limit = amounts(pool["spec"]["limits"])[resource]
                used = (limit - left + more).to_integral_value(ROUND_CEILING)
                wrong.append(f"{name}: {used} {resource} is over its limit of {limit}")
    return wrong


def left_of_limits(lists: Lists, pool: Json) -> dict[str, Decimal]:
    """Return what the nodes that are there leave of the limits of a pool; a node has the pool of its label, or else of
    its claim."""
    name, pool_of = pool["metadata"]["name"], {}
    for claim in lists.get("nodeclaims") or ():
        pool_of[(claim.get("status") or {}).get("nodeName")] = _pool_label(claim)
    there = [
        node
        for node in lists.get("nodes") or ()
        if (_pool_label(node) or pool_of.get(node["metadata"]["name"])) == name
    ]
    return {
        resource: limit - sum((_of_a_limit(resource, node["status"]["capacity"]) for node in there), NOTHING)
        for resource, limit in amounts(pool["spec"].get("limits")).items()
    }


def fits_limits(left: Mapping[str, Decimal], capacity: Json) -> bool:
    """Return whether one more node of this capacity is within what is left of the limits."""
    return all(_of_a_limit(resource, capacity) <= amount for resource, amount in left.items())


def _pool_label(manifest: Json) -> str | None:
    found: str | None = (manifest["metadata"].get("labels") or {}).get("karpenter.sh/nodepool")
    return found


def _of_a_limit(resource: str, capacity: Json) -> Decimal:
    return Decimal(1) if resource == "nodes" else amount(capacity.get(resource, 0))
