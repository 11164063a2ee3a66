"""From when on the scheduler's own rule allows each pod of a workload on its node, as kube-scheduler would see it.

A pod with a hard zone spread (maxSkew) may not run in its zone while another zone has too few pods of its workload,
even if its node is Ready. Each scheduler waits for that. So the time from "allowed" to Running shows what is left: the
time of registration and binding.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.workload_milestones import moment, ready_moment

Object = Mapping[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod that runs: its workload, when its node became Ready, the node's zone, and the `skew` of its hard zone
    spread, if any. Times are in seconds since the epoch."""

    workload: str
    zone: str
    ready: float
    running: float
    skew: int | None = None


def read_pods(nodes: Iterable[Object], pods: Iterable[Object]) -> list[RunningPod]:
    """Return the pods that run on Ready nodes."""
    ready = {each["metadata"]["name"]: (at, each) for each in nodes if (at := ready_moment(each)) is not None}
    return [
        RunningPod(
            workload=str(pod["metadata"].get("labels", {}).get("app", pod["metadata"]["name"])),
            zone=str(node["metadata"]["labels"].get(ZONE, "")),
            ready=at,
            running=moment(pod["status"]["startTime"]),
            skew=_zone_skew(pod),
        )
        for pod in pods
        if pod["status"].get("startTime") and pod["spec"].get("nodeName") in ready
        for at, node in [ready[pod["spec"]["nodeName"]]]
    ]


def waits_from_ready(pods: Iterable[RunningPod]) -> list[float]:
    """Return, for each pod, the seconds from Ready of its node until it runs, sorted."""
    return sorted(pod.running - pod.ready for pod in pods)


def waits_from_allowed(pods: Iterable[RunningPod], zones: Mapping[str, float]) -> list[float]:
    """Return, for each pod, the seconds from when the rule allows it on its Ready node until it runs, sorted.

    `zones` are the times at which each zone has its first node, Ready or not: from then on its pods count.

    >>> a, b = (RunningPod("web", zone, ready=at, running=31.0, skew=1) for zone, at in (("a", 10.0), ("b", 30.0)))
    >>> waits_from_ready([a, a, b])
    [1.0, 21.0, 21.0]
    >>> waits_from_allowed([a, a, b], {"a": 5.0, "b": 8.0})
    [1.0, 1.0, 21.0]
    """
    waits: list[float] = []
    workloads: dict[str, list[RunningPod]] = defaultdict(list)
    for pod in pods:
        if pod.skew is None:
            waits.append(pod.running - pod.ready)
        else:
            workloads[pod.workload].append(pod)
    for mine in workloads.values():
        waits += _waits_of_workload(mine, zones)
    return sorted(waits)


def _waits_of_workload(pods: Sequence[RunningPod], zones: Mapping[str, float]) -> Iterator[float]:
    """Yield the waits of one workload. At each moment at which a node becomes Ready, its pods are bound as far as the
    skew allows. Pods of one zone are equal: those that run first are allowed first."""
    running = {zone: sorted(pod.running for pod in pods if pod.zone == zone) for zone in {pod.zone for pod in pods}}
    bound: Counter[str] = Counter()
    for now in sorted({pod.ready for pod in pods}):
        able = Counter(pod.zone for pod in pods if pod.ready <= now)
        counted = {zone for zone, since in zones.items() if since <= now} | running.keys() & able.keys()
        skew = min(pod.skew or 1 for pod in pods)
        while zone := _next_zone(bound, able, counted, skew):
            yield running[zone][bound[zone]] - now
            bound[zone] += 1


def _next_zone(bound: Mapping[str, int], able: Mapping[str, int], counted: Iterable[str], skew: int) -> str:
    """Return a zone in which one more pod may run now, that with the fewest first; empty if there is none."""
    least = min(bound[zone] for zone in counted)
    open_zones = [zone for zone, most in able.items() if bound[zone] < most and bound[zone] + 1 - least <= skew]
    return min(open_zones, key=lambda zone: (bound[zone], zone), default="")


def first_nodes(nodes: Iterable[Object]) -> dict[str, float]:
    """Return when each zone got its first node."""
    found: dict[str, float] = {}
    for node in nodes:
        zone, at = str(node["metadata"]["labels"].get(ZONE, "")), moment(node["metadata"]["creationTimestamp"])
        found[zone] = min(at, found.get(zone, at))
    return found


def _zone_skew(pod: Object) -> int | None:
    spreads = pod["spec"].get("topologySpreadConstraints") or ()
    return min(
        (
            int(each["maxSkew"])
            for each in spreads
            if each["topologyKey"] == ZONE and each["whenUnsatisfiable"] == "DoNotSchedule"
        ),
        default=None,
    )
