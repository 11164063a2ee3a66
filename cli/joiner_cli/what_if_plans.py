"""Plans that answer "what if" after a plan: its nodes exist, and few pods are planned again."""

import time
from dataclasses import replace
from typing import Final

from joiner import names
from joiner.catalogue.assumed_spot_offerings import assume_spot_offerings
from joiner.cluster import Node
from joiner.planning import Snapshot
from joiner.planning.effort import Effort
from joiner_cli.manifest_plan import ManifestPlan, add_unplanned_pods, plan_snapshot
from joiner_cli.missing_spot_prices import SPOT_POOLS

WHAT_IF_SECONDS: Final = 0.5  # a what-if plan concerns a few pods


def what_if_effort(found: ManifestPlan) -> Effort:
    """Return the effort of a plan that only answers what would change."""
    seconds = min(found.request.deadline, WHAT_IF_SECONDS)
    return Effort(seconds=seconds, seed=found.request.seed, clock=time.perf_counter)


def apply_plan(found: ManifestPlan, *, without: str = "", pending: str = "") -> Snapshot:
    """Return the snapshot after the plan, without the planned node `without`, and with the pod `pending` unplaced."""
    before = found.manifests.snapshot
    planned = [node for node in found.plan.nodes if node.name != without]
    place = {pod: node.name for node in planned for pod in node.pods} | {
        pod: one.node for one in found.plan.existing for pod in one.pods
    }
    place.pop(pending, None)
    nodes = [
        Node(node.name, labels={**node.labels, names.HOSTNAME: node.name}, taints=node.taints, capacity=node.capacity,
             allocatable=node.allocatable, ready=True)
        for node in planned
    ]  # fmt: skip
    pods = tuple(
        replace(pod, node_name=place[pod.key], phase="Running") if place.get(pod.key) else pod for pod in before.pods
    )
    waiting = {one.pod for one in found.plan.pending}
    return replace(before, nodes=(*before.nodes, *nodes), pods=tuple(pod for pod in pods if pod.key not in waiting))


def plan_with_spot(found: ManifestPlan) -> ManifestPlan:
    """Return the plan of the same manifests with Spot Instances, for which the catalogue has no prices."""
    before, loaded = found.manifests.snapshot, found.catalogue
    closed = {key: reason for key, reason in before.closed_pools.items() if reason not in SPOT_POOLS}
    snapshot = replace(before, closed_pools=closed)
    loaded = replace(loaded, catalogue=assume_spot_offerings(loaded.catalogue))
    made = add_unplanned_pods(plan_snapshot(found.request, snapshot, loaded, found.classes), snapshot)
    return replace(found, manifests=replace(found.manifests, snapshot=snapshot), catalogue=loaded, plan=made)
