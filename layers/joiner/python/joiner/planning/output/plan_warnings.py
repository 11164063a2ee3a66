"""What an operator would object to in a plan: little spread, a single type, burstable types, many nodes, full subnets,
and limits that are nearly reached. A warning changes nothing in the plan."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue
from joiner.catalogue.burstable_types import sustained_millicores
from joiner.catalogue.instance_tenancy import DedicatedPrices
from joiner.cluster import Pod, Resources
from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.output.few_choices import find_few_choices
from joiner.planning.output.single_type import find_single_type
from joiner.planning.output.workload_concentration import asks_for_one, find_concentrated_workloads
from joiner.planning.placement.address_limits import count_addresses
from joiner.planning.plan import Plan, PlannedNode
from joiner.planning.state.plan_state import PlanState
from joiner.pools import ResolvedNodeClass

MANY_NODES: Final = 100
NEARLY_REACHED: Final = 0.9


def find_warnings(
    state: PlanState,
    made: Plan,
    snapshot: Snapshot,
    catalogue: Catalogue,
    classes: Mapping[str, ResolvedNodeClass],
) -> tuple[str, ...]:
    """Return the warnings about the new nodes of a plan, as sentences."""
    nodes = made.nodes
    if not nodes:
        return ()
    placed = {pod: node.node for node in made.existing for pod in node.pods}
    return (
        *_zones(nodes, state, snapshot.pods),
        *find_single_type(state),
        *find_few_choices(nodes, {pool.key: pool for pool in snapshot.pools}),
        *_burstable(nodes),
        *_number(nodes, snapshot),
        *_dedicated(nodes, catalogue),
        *find_concentrated_workloads(nodes, placed, snapshot),
        *_addresses(state, classes),
        *_limits(state, {node.pool for node in nodes}),
    )


def _zones(nodes: Sequence[PlannedNode], state: PlanState, pods: Iterable[Pod]) -> Iterator[str]:
    """Yield that all nodes are in one zone, unless all of their pods ask for one."""
    zones = {node.zone for node in nodes}
    planned = {pod for node in nodes for pod in node.pods}
    if all(asks_for_one(pod, names.ZONE) for pod in pods if pod.key in planned):
        return
    open_to = {one.offering.zone for pool_offers in state.offered_pools for one in pool_offers.launchable}
    if len(zones) == 1 and len(nodes) > 1:
        why = (
            "; nodes in other zones cost more than the tolerance, or rules and preferences of the pods, limits or "
            "reservations exclude them"
        )
        why = why if len(open_to) > 1 else ""
        yield f"all {len(nodes)} new nodes are in the zone {min(zones)}{why}"


def _burstable(nodes: Sequence[PlannedNode]) -> Iterator[str]:
    over = [
        node
        for node in nodes
        if (most := sustained_millicores(node.instance_type)) is not None
        and node.requests.get("cpu", 0) + node.daemon_overhead.get("cpu", 0) > most
    ]
    if over:
        yield (
            f"{_nodes(len(over))} of burstable types get pods that request more CPU than the types sustain: they use "
            "up their credits, or each further vCPU-hour is billed"
        )


def _number(nodes: Sequence[PlannedNode], snapshot: Snapshot) -> Iterator[str]:
    """Yield that there are many nodes for pods, and what would need fewer. The number of those of static pools and
    claims is given."""
    fixed = {pool.key for pool in snapshot.pools if pool.replicas is not None}
    mine = [node for node in nodes if node.pool not in fixed]
    if len(mine) < MANY_NODES:
        return
    apart = {pod.key for pod in snapshot.pods if _keeps_apart(pod)}
    number = sum(not apart.isdisjoint(node.pods) for node in mine)
    if number * 2 > len(mine):
        why = f"on {number} of them, rules of pods keep others of their kind off the node, so larger ones help little"
    else:
        why = "larger instance types would need fewer"
    yield f"the plan launches {len(mine)} nodes for pods; {why}"


def _keeps_apart(pod: Pod) -> bool:
    """Return whether required rules of the pod limit how many others are on its node."""
    spread = any(one.hard and one.topology_key == names.HOSTNAME for one in pod.constraints.spreads)
    return spread or any(term.topology_key == names.HOSTNAME for term in pod.constraints.anti_affinity)


def _dedicated(nodes: Sequence[PlannedNode], catalogue: Catalogue) -> Iterator[str]:
    """Yield that dedicated hardware costs more than the plan says, if the catalogue does not tell how much."""
    alone = [node for node in nodes if node.labels.get(names.TENANCY) == names.DEDICATED_TENANCY]
    if alone and not DedicatedPrices(catalogue).known:
        yield (
            f"{_nodes(len(alone))} on dedicated hardware: the catalogue has no prices of Dedicated Instances, so the "
            "plan has those of shared hardware"
        )


def _addresses(state: PlanState, classes: Mapping[str, ResolvedNodeClass]) -> Iterator[str]:
    """Yield the subnets with fewer free addresses than nodes and pods in them need."""
    nodes = (*state.new, *(node for node in state.existing if node.made))
    use = count_addresses(classes, nodes, lambda node: 1 + sum(node.planned.values()))
    for subnets, needed in sorted(use.shortages()):
        yield (
            f"{subnets}, and the new nodes and pods there need {needed}: allow more subnets in the node class, or "
            "use prefix delegation with a larger subnet"
        )


def _limits(state: PlanState, planned: Iterable[str]) -> Iterator[str]:
    pools = {pool_offers.pool.key: pool_offers.pool for pool_offers in state.offered_pools}
    for key in sorted(planned):
        pool, used = pools[key], state.limits.used.get(key, {})
        for name, limit in sorted(pool.limits.items()):
            if limit > 0 and used.get(name, 0) >= limit * NEARLY_REACHED:
                amount, most = (
                    (str(used[name]), str(limit))
                    if name == "nodes"
                    else (Resources({name: value}).to_kube()[name] for value in (used[name], limit))
                )
                yield f"{key} is close to its limit of {name}: {amount} of {most} with this plan"


def _nodes(number: int) -> str:
    return "1 new node" if number == 1 else f"{number} new nodes"
