"""Warnings about nodes that leave EC2 little choice: few types for a spot node, fewer values than minValues require."""

from collections.abc import Iterator, Mapping, Sequence

from joiner import names
from joiner.catalogue.spot_flexibility import describe_few_choices
from joiner.planning.plan import Offer, PlannedNode
from joiner.pools import NodePool


def find_few_choices(nodes: Sequence[PlannedNode], pools: Mapping[str, NodePool]) -> Iterator[str]:
    """Yield a sentence for each pool or standalone claim with spot nodes of few types, and for each pool with relaxed
    minValues. ``pools`` are by key."""
    least: dict[str, tuple[str, ...]] = {}
    relaxed: dict[str, list[PlannedNode]] = {}
    for node in nodes:
        types = tuple(sorted({one.instance_type for one in _choices(node)}))
        if node.capacity_type == names.SPOT and len(types) <= len(least.get(node.pool, types)):
            least[node.pool] = min(types, least.get(node.pool, types), key=lambda one: (len(one), one))
        if node.min_values_relaxed:
            relaxed.setdefault(node.pool, []).append(node)
    for key, types in sorted(least.items()):
        if message := describe_few_choices(types, key, of_claim=bool(pools[key].claim)):
            yield f"{key}: {message}"
    for key, mine in sorted(relaxed.items()):
        yield _describe_relaxed(mine, pools[key])


def _choices(node: PlannedNode) -> tuple[Offer, ...]:
    return (node.offer, *node.alternatives)


def _describe_relaxed(nodes: Sequence[PlannedNode], pool: NodePool) -> str:
    """Return what minValues of the pool require and the nodes do not have (minValuesPolicy BestEffort)."""
    asked = ", ".join(f"{number} of {key}" for key, number in sorted(pool.min_values.items()))
    number = "1 new node has" if len(nodes) == 1 else f"{len(nodes)} new nodes have"
    return (
        f"{pool.key}: {number} fewer choices than minValues require ({asked}), as minValuesPolicy "
        "BestEffort allows: allow more values, or lower minValues"
    )
