"""Rules of a pod about its node: labels, taints, resources, ports ("Assigning Pods to Nodes", "Taints and
Tolerations")."""

from collections.abc import Iterable, Mapping
from typing import Final

from tests.plan_checker.amounts import NOTHING, Amounts, Json, Lists, Spot, amounts, asks, key, plus

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
OLD_NAMES: Final = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}


def label(labels: Mapping[str, str], name: str) -> str | None:
    """Return a node's label; a label that Kubernetes renamed counts under both names."""
    new = OLD_NAMES.get(name, name)
    return labels.get(new, labels.get(name))


def whole(text: object) -> int | None:
    number = str(text)
    return int(number) if number.removeprefix("-").removeprefix("+").isdecimal() else None


def holds(operator: str, values: list[str], value: str | None) -> bool:
    """Return whether one expression holds for a label's value (None means no such label)."""
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    number, bound = whole(value), whole(values[0])
    if value is None or number is None or bound is None:
        return False
    return {"Gt": number > bound, "Lt": number < bound, "Gte": number >= bound, "Lte": number <= bound}[operator]


def meets(expressions: Iterable[Json], labels: Mapping[str, str]) -> bool:
    """Return whether a node with these labels meets all the expressions."""
    return all(holds(one["operator"], list(one.get("values") or ()), label(labels, one["key"])) for one in expressions)


def selects(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Return whether a selector matches these labels: no selector matches nothing, an empty one everything."""
    if selector is None:
        return False
    exact = all(labels.get(name) == value for name, value in (selector.get("matchLabels") or {}).items())
    more = selector.get("matchExpressions") or ()
    return exact and all(holds(one["operator"], list(one.get("values") or ()), labels.get(one["key"])) for one in more)


def likes(spec: Json, labels: Mapping[str, str], name: str) -> bool:
    if any(label(labels, wanted) != value for wanted, value in (spec.get("nodeSelector") or {}).items()):
        return False
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    for term in required["nodeSelectorTerms"]:
        expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
        named = all(holds(one["operator"], one["values"], name) for one in fields)
        if (expressions or fields) and named and meets(expressions, labels):
            return True
    return False


def tolerated(spec: Json, taints: Iterable[Json]) -> bool:
    return all(
        taint["effect"] == "PreferNoSchedule" or any(tolerates(one, taint) for one in spec.get("tolerations") or ())
        for taint in taints
    )


def tolerates(toleration: Json, taint: Json) -> bool:
    operator = toleration.get("operator") or "Equal"
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if not toleration.get("key"):
        return operator == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    if operator in ("Gt", "Lt"):
        return holds(operator, [toleration.get("value") or ""], taint.get("value"))
    return operator == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")


def check_node_rules(pod: Json, spot: Spot) -> list[str]:
    wrong = []
    if not tolerated(pod["spec"], spot.taints):
        wrong.append(f"{key(pod)}: does not tolerate a taint of {spot.name}")
    if not likes(pod["spec"], spot.labels, spot.name):
        wrong.append(f"{key(pod)}: its node rules do not allow {spot.name}")
    return wrong


def check_resources(spot: Spot, lists: Lists) -> list[str]:
    """Check the total of a node: its pods, and the daemon pods that will run there."""
    guests = [*spot.pods, *(daemon for daemon in daemons_to_come(spot, lists))]
    taken: Amounts = {}
    ports: list[tuple[str, int, str]] = []
    for pod in guests:
        taken = plus(taken, asks(pod))
        ports += host_ports(pod["spec"])
    wrong = [
        f"{spot.name}: {name} is asked for {value} of {spot.allocatable.get(name, 0)}"
        for name, value in taken.items()
        if value > spot.allocatable.get(name, NOTHING) and value > 0
    ]
    for index, (ip, number, protocol) in enumerate(ports):
        for other_ip, other_number, other_protocol in ports[:index]:
            everywhere = "0.0.0.0" in (ip, other_ip)  # noqa: S104 - all addresses, as a manifest says it
            if (number, protocol) == (other_number, other_protocol) and (ip == other_ip or everywhere):
                wrong.append(f"{spot.name}: port {number}/{protocol} is wanted twice")
    return wrong


def check_overheads(plan: Json, spots: Iterable[Spot], lists: Lists) -> list[str]:
    """Check that the daemon overhead of each new node is what the daemon sets request that its labels and taints
    accept, whatever gives it the labels: the type, the template of the pool or the pool's requirements."""
    wrong, stated = [], {one["name"]: amounts(one["daemonOverhead"]) for one in plan["nodes"]}
    for spot in spots:
        if spot.new:
            total: Amounts = {}
            for daemon in daemons_to_come(spot, lists):
                total = plus(total, asks(daemon))
            told = stated[spot.name]  # without what no daemon requests, or requests 0 of
            names = [name for name in {*total, *told} if total.get(name, 0) != told.get(name, 0)]
            wrong += [
                f"{spot.name}: daemons ask for {total.get(name, 0)} {name}, and its overhead says otherwise"
                for name in names
            ]
    return wrong


def daemons_to_come(spot: Spot, lists: Lists) -> list[Json]:
    """Return a pod of each daemon set that belongs on the node and does not run there yet."""
    found: list[Json] = []
    mine = [(one, owner) for one in spot.pods for owner in owners(one) if owner["kind"] == "DaemonSet"]
    there = {(one["metadata"].get("namespace"), owner["name"]) for one, owner in mine}
    for daemon in lists.get("daemonsets") or ():
        template = daemon["spec"]["template"]
        spec = template["spec"]
        known = (daemon["metadata"].get("namespace"), daemon["metadata"]["name"]) in there
        if not known and tolerated(spec, spot.taints) and likes(spec, spot.labels, spot.name):
            found.append(newest_of(daemon, lists) or {"metadata": daemon["metadata"], "spec": spec})
    return found


def newest_of(daemon: Json, lists: Lists) -> Json | None:
    """Return the newest pod of the daemon set: its requests are those of the next pod."""
    uid = daemon["metadata"].get("uid")
    pods = [
        pod
        for pod in lists.get("pods") or ()
        if pod["spec"].get("nodeName")
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        and any(one.get("uid") == uid and one["kind"] == "DaemonSet" for one in owners(pod))
    ]
    return (
        max(pods, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), key(pod)), default=None)
        if uid
        else None
    )


def owners(pod: Json) -> list[Json]:
    return list(pod["metadata"].get("ownerReferences") or ())


def host_ports(spec: Json) -> list[tuple[str, int, str]]:
    found = set()
    stays = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    for container in (*(spec.get("containers") or ()), *stays):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else None)
            if number:
                # 0.0.0.0 means all addresses
                found.add((port.get("hostIP") or "0.0.0.0", number, port.get("protocol") or "TCP"))  # noqa: S104
    return sorted(found)
