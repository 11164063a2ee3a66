"""Quantities and requests, as the documentation defines them ("Quantity", "Init Containers", "Sidecar Containers",
"Pod Overhead")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

Json = Mapping[str, Any]
Lists = Mapping[str, Sequence[Json]]
Amounts = dict[str, Decimal]

SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
NOTHING: Final = Decimal(0)


@dataclass
class Spot:
    """A node of the finished plan: existing, in flight, or planned (``new``)."""

    name: str
    labels: dict[str, str]
    taints: list[Json]
    allocatable: Amounts
    pods: list[Json] = field(default_factory=list)
    new: bool = False
    type: str = ""


def namespace_of(one: Json) -> str:
    return str(one["metadata"].get("namespace") or "default")


def key(pod: Json) -> str:
    return f"{namespace_of(pod)}/{pod['metadata']['name']}"


def amount(text: Any) -> Decimal:
    """
    >>> amount("1500m"), amount("2Ki"), amount(3)
    (Decimal('1.500'), Decimal('2048'), Decimal('3'))
    """
    digits = str(text)
    for suffix, power in BINARY.items():
        if digits.endswith(suffix):
            return Decimal(digits[:-2]) * Decimal(2**power)
    if digits[-1] in SUFFIXES:
        return Decimal(digits[:-1]).scaleb(SUFFIXES[digits[-1]])
    return Decimal(digits)


def amounts(given: Json | None) -> Amounts:
    return {name: amount(value) for name, value in (given or {}).items()}


def plus(one: Amounts, two: Amounts) -> Amounts:
    return {name: one.get(name, NOTHING) + two.get(name, NOTHING) for name in one.keys() | two.keys()}


def most(one: Amounts, two: Amounts) -> Amounts:
    return {name: max(one.get(name, NOTHING), two.get(name, NOTHING)) for name in one.keys() | two.keys()}


def asks(pod: Json) -> Amounts:
    """Return the requests of a pod. Sidecars run beside the containers that start after them; other init containers
    run alone, one after the other."""
    spec, status = pod["spec"], pod.get("status") or {}
    given = {
        one["name"]: one for kind in ("containerStatuses", "initContainerStatuses") for one in status.get(kind) or ()
    }
    refused = any(
        one.get("type") == "PodResizePending" and one.get("reason") == "Infeasible"
        for one in status.get("conditions") or ()
    )

    def of(container: Json) -> Amounts:
        resources = container.get("resources") or {}
        wanted = amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
        seen = given.get(container.get("name", ""), {})
        if "allocatedResources" not in seen and "requests" not in (seen.get("resources") or {}):
            return wanted
        actual = most(amounts(seen.get("allocatedResources")), amounts((seen.get("resources") or {}).get("requests")))
        return actual if refused else most(wanted, actual)

    running: Amounts = {}
    for container in spec.get("containers") or ():
        running = plus(running, of(container))
    beside: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            beside = plus(beside, of(container))
            peak = most(peak, beside)
        else:
            peak = most(peak, plus(beside, of(container)))
    whole = most(plus(running, beside), peak)
    resources = spec.get("resources") or {}
    held = most(amounts(status.get("allocatedResources")), amounts((status.get("resources") or {}).get("requests")))
    for name, value in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
        stated = name in (resources.get("requests") or {}) or not whole.get(name)
        if stated and (name in ("cpu", "memory") or name.startswith("hugepages-")):
            whole[name] = max(NOTHING if refused and name in held else amount(value), held.get(name, NOTHING))
    return plus(plus(whole, amounts(spec.get("overhead"))), {"pods": Decimal(1)})
