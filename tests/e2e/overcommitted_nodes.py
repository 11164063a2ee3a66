"""Whether the pods of each node fit on it: CPU, memory, ephemeral storage, extended resources, and their number.

Written from the Kubernetes documentation, without Joiner's code. What a pod asks for: "Init Containers" (resource
sharing within containers), "Sidecar Containers", "Pod Overhead", "Assign Pod-level CPU and memory resources".

>>> init = {"resources": {"requests": {"cpu": "2"}}}
>>> sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}
>>> main = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
>>> used = pod_requests({"spec": {"initContainers": [sidecar, init], "containers": [main]}})
>>> print(used["cpu"], used["memory"], used["pods"])  # the init container runs beside the sidecar, before the others
5/2 1073741824 1
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

from joiner_local.control_plane.kube_api import Object

QUANTITY: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
FINAL: Final = ("Succeeded", "Failed")
POD_LEVEL: Final = ("cpu", "memory")
"""What the requests of a pod as a whole replace. Huge pages are not judged."""

Amounts = Mapping[str, Fraction]


def overcommitted(nodes: Iterable[Object], pods: Iterable[Object]) -> list[str]:
    """Return a sentence for each resource of which the pods of a node ask for more than it has."""
    used: dict[str, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and pod.get("status", {}).get("phase") not in FINAL:
            for resource, amount in pod_requests(pod).items():
                used[node][resource] += amount
    return [
        f"node {node['metadata']['name']} has {_text(has)} of {resource}, and its pods ask for {_text(amount)}"
        for node in nodes
        for resource, amount in sorted(used[node["metadata"]["name"]].items())
        if amount > (has := quantity(str(node["status"].get("allocatable", {}).get(resource, "0"))))
    ]


def pod_requests(pod: Object) -> Amounts:
    """Return what a node keeps for a pod."""
    spec = pod["spec"]
    most: dict[str, Fraction] = defaultdict(Fraction)
    beside: dict[str, Fraction] = defaultdict(Fraction)  # sidecars that run already
    for container in spec.get("initContainers") or ():
        own = _requests(container)
        for resource in {*own, *beside}:
            most[resource] = max(most[resource], beside[resource] + own.get(resource, Fraction()))
        if container.get("restartPolicy") == "Always":
            _add(beside, own)
    for container in spec["containers"]:
        _add(beside, _requests(container))
    found = {resource: max(most[resource], beside[resource]) for resource in {*most, *beside}}
    whole = _amounts((spec.get("resources") or {}).get("requests") or {})
    found |= {key: each for key, each in whole.items() if key in POD_LEVEL}
    for resource, amount in _amounts(spec.get("overhead") or {}).items():
        found[resource] = found.get(resource, Fraction()) + amount
    return {**found, "pods": Fraction(1)}


def quantity(text: str) -> Fraction:
    """Return a quantity of Kubernetes as a number.

    >>> [str(quantity(each)) for each in ("1930m", "2", "1.5Gi", "128974848", "129e6", "129M", "7Ki")]
    ['193/100', '2', '1610612736', '128974848', '129000000', '129000000', '7168']
    """
    match = QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    number, exponent, unit = match.groups()
    if unit in BINARY:
        return Fraction(number) * Fraction(1024 ** (BINARY.index(unit) + 1))
    tens = int(exponent) if exponent else DECIMAL[unit or ""]
    return Fraction(f"{number}e{tens}")


def _requests(container: Mapping[str, Any]) -> Amounts:
    """Return the requests of a container. A limit without a request is a request."""
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(texts: Mapping[str, Any]) -> Amounts:
    return {resource: quantity(str(text)) for resource, text in texts.items()}


def _add(total: dict[str, Fraction], amounts: Amounts) -> None:
    for resource, amount in amounts.items():
        total[resource] += amount


def _text(amount: Fraction) -> str:
    return f"{float(amount):g}" if amount.denominator > 1 else str(amount)
