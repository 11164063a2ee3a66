"""The orders in which groups of pods are placed."""

from collections.abc import Callable, Iterable, Mapping

from joiner.cluster.resources import CPU, MEMORY
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.state.plan_state import PlanState


def estimate_sizes(state: PlanState, groups: Iterable[PodGroup]) -> dict[PodGroup, float]:
    """Estimate the worth of each pod before a bound exists: cores, plus memory at the usual 4 GiB per core."""
    rates = {CPU: 1e-3, MEMORY: 2.0**-32}
    by_position = [rates.get(name, 0.0) for name in state.groups.resources]
    return {group: 1e-6 + sum(map(float.__mul__, by_position, map(float, group.vector))) for group in groups}


def order_groups(state: PlanState, shares: Mapping[int, float], order: str) -> list[PodGroup]:
    """Return the pending groups in order.

    Highest priority first; then groups that require existing capacity; then groups with rules about other pods,
    because they determine the node; then the largest. With ``scarce``, groups with the fewest offers come first.
    """
    offers = {group: state.offers(group) for group in state.left}
    sizes: dict[str, Callable[[PodGroup], float]] = {
        "scarce": lambda group: -offers[group],
        "worth": lambda group: shares[group.index],
        "cpu": lambda group: group.constraints.requests.get(CPU, 0),
        "memory": lambda group: group.constraints.requests.get(MEMORY, 0),
    }
    size = sizes[order]

    def key(group: PodGroup) -> tuple[float, ...]:
        own = state.rules[group.index]
        ties = 0 if order == "scarce" or own.selected_groups else 2 if own.free else 1
        return (group.rank, offers[group] > 0, ties, -size(group), group.index)

    return sorted(state.left, key=key)
