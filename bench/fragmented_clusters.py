"""Clusters with free capacity in many places: pods arrive in batches, get nodes from a first-fit packing, and a random
part of them is deleted.

The packing is Karpenter's in its essence: pods by falling CPU and memory, each to the first node of its batch that can
still be some instance type; at the end each node becomes the cheapest type that holds its pods.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bench.cases import HOST, ZONE, ZONES, Json, RecordedCase
from joiner.catalogue import Catalogue
from joiner.catalogue.allocatable import compute_allocatable
from joiner.planning import Snapshot
from joiner.planning.arrays import Floats

LONG_AGO: Final = "2026-11-20T08:00:00Z"
RESOURCES: Final = ("cpu", "memory", "pods")
CONDITIONS: Final = ("Launched", "Registered", "Initialized")


@dataclass(frozen=True, slots=True)
class FragmentedCluster:
    """Lists of manifests as an API server returns them, and the price of all nodes in $/h."""

    lists: dict[str, list[Json]]
    price_per_hour: float

    def snapshot(self) -> Snapshot:
        """Return the cluster as a snapshot."""
        return Snapshot.from_lists(self.lists)


def fragmented_cluster(
    case: RecordedCase, catalogue: Catalogue, *, batch: int, deleted: float, seed: int = 0
) -> FragmentedCluster:
    """Return the cluster that remains of a recorded case after ``deleted`` (a share) of its pods have ended."""
    lists: dict[str, list[Json]] = {name: list(items) for name, items in case.lists().items()}
    chance = random.Random(seed)  # noqa: S311 - a benchmark
    pods = lists["pods"]
    chance.shuffle(pods)
    table = TypeTable.of(lists, catalogue)
    nodes: list[tuple[int, list[Json]]] = []
    for start in range(0, len(pods), batch):
        nodes += table.pack(pods[start : start + batch])
    lists |= {"pods": [], "nodes": [], "nodeclaims": []}
    price = 0.0
    for number, (type_, inside) in enumerate(nodes):
        zone = ZONES[number % len(ZONES)]
        claim, node = claim_and_node(f"n{number:05d}", table.names[type_], zone, catalogue, table.allocatable[type_])
        lists["nodeclaims"].append(claim)
        lists["nodes"].append(node)
        lists["pods"] += [running(pod, node["metadata"]["name"]) for pod in inside if chance.random() >= deleted]
        price += float(table.prices[type_])
    return FragmentedCluster(lists, price)


def with_rules(cluster: FragmentedCluster, seed: int = 0) -> FragmentedCluster:
    """Return the cluster with rules on its pods: those with equal requests are a workload.

    A quarter of the workloads spread over zones (``DoNotSchedule``), a quarter over hosts (``ScheduleAnyway``), a
    quarter prefers hosts without its own pods. Each has a PodDisruptionBudget of a tenth, and each hundredth pod must
    not be disrupted.
    """
    chance = random.Random(seed)  # noqa: S311 - a benchmark
    numbers: dict[str, int] = {}
    pods: list[Json] = []
    for pod in cluster.lists["pods"]:
        requests = [one.get("resources", {}).get("requests", {}) for one in pod["spec"]["containers"]]
        number = numbers.setdefault(str(requests), len(numbers))
        labels = {"app": f"w{number}"}
        metadata = {**pod["metadata"], "labels": {**pod["metadata"].get("labels", {}), **labels}}
        if chance.random() < 0.01:
            metadata["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
        rule = _rule(number, labels) if "affinity" not in pod["spec"] else {}
        pods.append({**pod, "metadata": metadata, "spec": {**pod["spec"], **rule}})
    budgets: list[Json] = [
        {
            "metadata": {"name": f"w{number}", "namespace": "default"},
            "spec": {"maxUnavailable": "10%", "selector": {"matchLabels": {"app": f"w{number}"}}},
            "status": {"disruptionsAllowed": 1_000, "expectedPods": 10_000, "currentHealthy": 10_000},
        }
        for number in numbers.values()
    ]
    return FragmentedCluster({**cluster.lists, "pods": pods, "poddisruptionbudgets": budgets}, cluster.price_per_hour)


def _rule(number: int, labels: dict[str, str]) -> Json:
    selector = {"matchLabels": labels}
    spread = {"maxSkew": 10, "labelSelector": selector}
    apart = {"topologyKey": HOST, "labelSelector": selector}
    rules: tuple[Json, ...] = (
        {"topologySpreadConstraints": [{**spread, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]},
        {"topologySpreadConstraints": [{**spread, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"}]},
        {
            "affinity": {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]
                }
            }
        },
        {},
    )
    return rules[number % len(rules)]


@dataclass(frozen=True, slots=True)
class TypeTable:
    """The instance types of a case's pool in order of price. ``free`` are the amounts that daemon pods leave."""

    names: tuple[str, ...]
    prices: Floats
    allocatable: tuple[Any, ...]
    free: Floats

    @classmethod
    def of(cls, lists: dict[str, list[Json]], catalogue: Catalogue) -> "TypeTable":
        """Return the types that the first pool of these lists may use, with what pods can use of them."""
        snapshot = Snapshot.from_lists(lists)
        pool = snapshot.pools[0]
        daemons = [daemon.requests for daemon in snapshot.daemon_sets]
        found = []
        for one in catalogue.types.values():
            price = one.price(ZONES[0], "on-demand")
            if price is not None and pool.requirements.allow({**one.labels, "karpenter.sh/capacity-type": "on-demand"}):
                allocatable = compute_allocatable(one, snapshot.node_class(pool), pool)
                left = [allocatable.get(name, 0) - sum(each.get(name, 0) for each in daemons) for name in RESOURCES]
                found.append((price, one.name, allocatable, left))
        found.sort(key=lambda each: each[:2])
        return cls(
            tuple(each[1] for each in found),
            np.array([each[0] for each in found]),
            tuple(each[2] for each in found),
            np.array([each[3] for each in found], float),
        )

    def pack(self, pods: Sequence[Json]) -> Iterator[tuple[int, list[Json]]]:
        """Yield the type and the pods of each node of one batch."""
        snapshot = Snapshot.from_lists({"pods": list(pods)})
        need = [[one.requests.get(name, 0) for name in RESOURCES] for one in snapshot.pods]
        order = sorted(range(len(pods)), key=lambda at: (-need[at][0], -need[at][1], at))
        used: list[Floats] = []
        able: list[Any] = []
        inside: list[list[Json]] = []
        for at in order:
            asked = np.array(need[at], float)
            for number, total in enumerate(used):
                left = able[number] & (self.free >= total + asked).all(axis=1)
                if left.any():
                    used[number], able[number] = total + asked, left
                    inside[number].append(pods[at])
                    break
            else:
                used.append(asked)
                able.append((self.free >= asked).all(axis=1))
                inside.append([pods[at]])
        for types, contents in zip(able, inside, strict=True):
            yield int(np.flatnonzero(types)[0]), contents


def claim_and_node(name: str, type_: str, zone: str, catalogue: Catalogue, allocatable: Any) -> tuple[Json, Json]:
    """Return a NodeClaim and its Node, initialized long ago."""
    labels = {
        **catalogue.types[type_].labels,
        ZONE: zone,
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/nodepool": "default",
    }
    provider_id = f"aws:///{zone}/i-{name}"
    amounts = {"capacity": catalogue.types[type_].capacity.to_kube(), "allocatable": allocatable.to_kube()}
    conditions = [{"type": one, "status": "True", "lastTransitionTime": LONG_AGO} for one in CONDITIONS]
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": labels, "creationTimestamp": LONG_AGO},
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        "status": {"providerID": provider_id, "nodeName": f"node-{name}", "conditions": conditions, **amounts},
    }
    joined = {HOST: f"node-{name}", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
    node = {
        "metadata": {"name": f"node-{name}", "labels": {**labels, **joined}, "creationTimestamp": LONG_AGO},
        "spec": {"providerID": provider_id},
        "status": {**amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return claim, node


def running(pod: Json, node: str) -> Json:
    """Return the pod of a ReplicaSet, running on a node."""
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": True}
    return {
        **pod,
        "metadata": {**pod["metadata"], "ownerReferences": [owner]},
        "spec": {**pod["spec"], "nodeName": node},
        "status": {"phase": "Running"},
    }
