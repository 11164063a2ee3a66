"""Whether a kubelet admits a pod that was bound to its node; KWOK admits any pod.

Predicates and messages are the kubelet's own (kubernetes, pkg/kubelet/lifecycle/predicate.go): capacity for its
requests, the node's selector and required affinity, host ports, untolerated NoExecute taints; then those of the device
manager. A refused pod has failed permanently.

Devices are simulated by the node's allocatable amounts: a resource that it does not list has no device plug-in.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joiner.cluster.quantities import parse_amount

RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods")
TAINT_MESSAGE: Final = "node(s) had taints that the pod didn't tolerate"
AFFINITY_MESSAGE: Final = "node(s) didn't match Pod's node affinity/selector"
PORTS_MESSAGE: Final = "node(s) didn't have free ports for the requested pod ports"

Object = Mapping[str, Any]
Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refusal as the pod's status shows it."""

    reason: str
    message: str


def requests_of(pod: Object) -> Amounts:
    """Return the total requests of a pod: its containers and sidecars, or the largest phase of its init containers, and
    its overhead.

    Source: Kubernetes, "Sidecar Containers", resource sharing within containers.

    >>> requests_of({"spec": {"containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}],
    ...     "initContainers": [{"resources": {"requests": {"cpu": "2"}}}]}})
    {'cpu': 2000, 'memory': 1048576, 'pods': 1}
    """
    spec = pod["spec"]
    running: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            running = _plus(running, _asked(container))
            starting = _largest(starting, running)
        else:
            starting = _largest(starting, _plus(running, _asked(container)))
    for container in spec["containers"]:
        running = _plus(running, _asked(container))
    total = _largest(running, starting)
    level = _parsed(
        (spec.get("resources") or {}).get("requests") or {}
    )  # requests of the pod as a whole replace the sum
    return _plus({**total, **level}, _parsed(spec.get("overhead") or {})) | {"pods": 1}


def _asked(container: Object) -> Amounts:
    return _parsed((container.get("resources") or {}).get("requests") or {})


def _parsed(quantities: Mapping[str, str]) -> Amounts:
    return {name: parse_amount(text, scale=1000 if name == "cpu" else 1) for name, text in quantities.items()}


def _plus(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, 0) + other.get(name, 0) for name in [*one, *(n for n in other if n not in one)]}


def _largest(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in [*one, *(n for n in other if n not in one)]}


def tolerates(tolerations: Iterable[Object], taint: Object) -> bool:
    """Return whether one of these tolerations tolerates the taint.

    >>> tolerates([{"operator": "Exists"}], {"key": "a", "effect": "NoExecute"})
    True
    >>> tolerates([{"key": "a", "value": "1"}], {"key": "a", "value": "2", "effect": "NoExecute"})
    False
    """
    for toleration in tolerations:
        key, effect, operator = (toleration.get(name) or "" for name in ("key", "effect", "operator"))
        if effect not in ("", taint["effect"]) or key not in ("", taint["key"]):
            continue
        if operator == "Exists" or (key and (toleration.get("value") or "") == (taint.get("value") or "")):
            return True
    return False


def judge(pod: Object, node: Object, taken: Amounts, ports: Iterable[tuple[str, int]] = ()) -> Rejection | None:
    """Return why the kubelet of this node refuses the pod, or None. `taken` are the requests of its active pods,
    `ports` their host ports.
    """
    asked, allocatable = requests_of(pod), _parsed(node["status"]["allocatable"])
    for name in RESOURCES:
        if asked.get(name, 0) and taken.get(name, 0) + asked[name] > allocatable.get(name, 0):
            message = (
                f"Pod was rejected: Node didn't have enough resource: {name}, requested: {asked[name]}, "
                f"used: {taken.get(name, 0)}, capacity: {allocatable.get(name, 0)}"
            )
            return Rejection(f"OutOf{name}", message)
    if not selected(pod, node):
        return _predicate("NodeAffinity", AFFINITY_MESSAGE)
    if set(host_ports(pod)) & set(ports):
        return _predicate("NodePorts", PORTS_MESSAGE)
    taints = [taint for taint in node["spec"].get("taints") or [] if taint["effect"] == "NoExecute"]
    if not all(tolerates(pod["spec"].get("tolerations") or [], taint) for taint in taints):
        return _predicate("TaintToleration", TAINT_MESSAGE)
    for name in asked:
        if (
            name not in RESOURCES
            and not name.startswith("hugepages-")
            and taken.get(name, 0) + asked[name] > allocatable.get(name, 0)
        ):
            message = (
                f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {name}. "
                f"Requested: {asked[name]}, Available: {max(0, allocatable.get(name, 0) - taken.get(name, 0))}, "
                "which is unexpected"
            )
            return Rejection("UnexpectedAdmissionError", message)
    return None


def _predicate(name: str, message: str) -> Rejection:
    return Rejection(name, f"Pod was rejected: Predicate {name} failed: {message}")


def host_ports(pod: Object) -> list[tuple[str, int]]:
    """Return protocol and number of each host port of the pod."""
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports") or []]
    return [(port.get("protocol") or "TCP", port["hostPort"]) for port in ports if port.get("hostPort")]


def selected(pod: Object, node: Object) -> bool:
    """Return whether the node satisfies the pod's node selector and its required node affinity."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (pod["spec"].get("nodeSelector") or {}).items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_term_holds(term, labels, fields) for term in required["nodeSelectorTerms"])


def _term_holds(term: Object, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    by_label, by_field = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not by_label and not by_field:
        return False  # an empty term matches nothing
    return all(_holds(each, labels) for each in by_label) and all(_holds(each, fields) for each in by_field)


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return value is not None and _compares(operator, value, values)
    return False


def _compares(operator: str, value: str, values: Sequence[str]) -> bool:
    try:
        return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
    except (ValueError, IndexError):
        return False
