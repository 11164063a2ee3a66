"""A workload of which a random part is deleted, without a stack: the price and the moved pods of each wave.

The planner plans the nodes of the workload W2; 300 of the 500 pods of each deployment are deleted at random; the waves
of `joiner.disruption.consolidation` are applied one after the other until nothing is proposed.
"""

import random
from typing import Any, Final

from bench.applied_workloads import FAMILIES
from bench.cases import CLASSES, SHIPPED, Json, pods_of, read_catalogue
from bench.consolidation_waves import evictions_until, waves
from bench.fragmented_clusters import claim_and_node, running
from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.planner import plan

ROWS: Final = ((500, 900, 3100, 0), (500, 3500, 28 * 1024, 0))
DELETED: Final = 300
LARGEST: Final = 33
PRICE: Final = 88.0
SEEDS: Final = 3
KEY: Final = "karpenter.k8s.aws/"
POOL: Final[dict[str, Any]] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default", "uid": "uid-default"},
    "spec": {
        "disruption": {"budgets": [{"nodes": "100%"}]},
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": f"{KEY}instance-family", "operator": "In", "values": list(FAMILIES)},
                    {"key": f"{KEY}instance-cpu", "operator": "Lt", "values": [str(LARGEST)]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
            }
        },
    },
}


def pending_pods() -> list[Json]:
    """Return the pods of both deployments; the label `app` names the deployment."""
    return [
        {**pod, "metadata": {**pod["metadata"], "labels": {"app": f"r{position}"}}}
        for position, row in enumerate(ROWS)
        for pod in pods_of(position, row)
    ]


def shrunken(found: Plan, catalogue: Catalogue, seed: int) -> Snapshot:
    """Return the planned cluster after the deletion."""
    chance = random.Random(seed)  # noqa: S311 - a benchmark
    kept = {
        f"default/r{position}-{number}"
        for position, (count, *_) in enumerate(ROWS)
        for number in chance.sample(range(count), count - DELETED)
    }
    by_key = {f"default/{pod['metadata']['name']}": pod for pod in pending_pods()}
    lists: dict[str, list[Any]] = {"nodepools": [POOL], "pods": [], "nodes": [], "nodeclaims": []}
    for planned in found.nodes:
        claim, node = claim_and_node(planned.name, planned.instance_type, planned.zone, catalogue, planned.allocatable)
        lists["nodeclaims"].append(claim)
        lists["nodes"].append(node)
        lists["pods"] += [running(by_key[key], node["metadata"]["name"]) for key in planned.pods if key in kept]
    return Snapshot.from_lists(lists)


def main() -> int:
    """Run the benchmark; return the exit code."""
    catalogue = read_catalogue(SHIPPED)
    found = plan(Snapshot.from_lists({"nodepools": [POOL], "pods": pending_pods()}), catalogue, classes=CLASSES)
    print(f"planned: {len(found.nodes)} nodes, ${found.price_per_hour:.2f}/h")
    for seed in range(SEEDS):
        done = list(waves(shrunken(found, catalogue, seed), catalogue))
        last = done[-1]
        print(
            f"deletion {seed}: {len(done)} waves to ${last.prices[-1]:.2f}/h, {last.prices[-1] / last.bound - 1:.1%}"
            f" above the bound, {last.evictions[-1]} pods moved; ${PRICE:g}/h after {evictions_until(done, PRICE)};"
            f" {max(wave.seconds for wave in done):.2f} s of CPU"
        )
    return 0
