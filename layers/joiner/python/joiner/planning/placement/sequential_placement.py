"""Place pods one after the other: existing nodes are filled first, then nodes are opened one by one.

Greedy and deterministic. Groups are in a fixed order. For the first group that has pods left, each candidate offer is
opened and filled on trial; the one with the lowest price for the worth of its pods (their shares of the bound) is kept.
Where one more node could take all remaining pods, that node is recorded, and used in the end if the rest of the plan is
more expensive.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from joiner import names
from joiner.cluster.resources import CPU
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.placement.group_order import order_groups
from joiner.planning.placement.preferences import preference_score
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.relaxation.free_capacity import FreeCapacity
from joiner.planning.state.checkpoint import layout_of, restore_layout
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.tuning import ALL_OFFERS_PODS, OFFER_SHORTLIST

FEW_CROWDS = 12
"""The maximum number of nodes tried for a pod that others would follow elsewhere; MOST_LEADS is the maximum for all
such pods."""
MOST_LEADS = 200
MANY_NODES = 24
"""From this number of nodes on, nodes are first filtered with array operations."""


@dataclass(frozen=True, slots=True)
class PlacementStrategy:
    """The parameters of one attempt.

    The order of groups, the largest node (CPU in millicores; None means any), and whether pods that spread over
    zones are assigned to zones beforehand. With ``sharing``, a node takes only so many of the pods that others
    follow that one remains for each follower. A last resort is used only when no other strategy has placed every
    pod.
    """

    order: str = "worth"
    largest: int | None = None
    assigned: bool = False
    sharing: bool = True
    last_resort: bool = False


@dataclass(frozen=True, slots=True)
class ClosingNode:
    """One more node for all remaining pods: after how many nodes, and the resulting total price."""

    nodes: int
    price: float
    choice: OfferChoice


class SequentialPlacer:
    """One attempt at a plan in one state. Its new nodes cost less than ``under`` in total."""

    def __init__(
        self,
        state: PlanState,
        frontier: OfferFrontier | None,
        shares: Mapping[int, float],
        approach: PlacementStrategy,
        *,
        under: float = float("inf"),
    ) -> None:
        self.state = state
        self._under = under
        self._frontier = frontier
        self.shares = {index: share if share != float("inf") else 0.0 for index, share in shares.items()}
        self.approach = approach
        self.order = order_groups(state, self.shares, approach.order)
        self.has_affinity = any(state.rules[group.index].affinity for group in self.order)
        self._followers = [group for group in self.order if self._follows(group)] if self.has_affinity else []
        self._has_soft_taints = any(not taint.hard for node in state.existing for taint in node.taints)
        self.plain = all(state.rules[group.index].free for group in self.order)
        self.ending: ClosingNode | None = None
        self.unplaceable = {
            group
            for group in self.order
            if frontier and not any(fits(group, one.one.free) for one in frontier.of(group))
        }

    @property
    def frontier(self) -> OfferFrontier:
        """Return the offers for new nodes. ValueError for a placer that opens none."""
        if self._frontier is None:
            raise ValueError("this filler opens no nodes")
        return self._frontier

    def fill(self) -> None:
        """Place all pods that can be placed."""
        self._fill_nodes(self.state.existing)
        stuck: set[PodGroup] = set()
        while True:
            waiting = [group for group in self.order if self.state.left[group] and group not in stuck]
            if not waiting:
                break
            self._fill_nodes(self.state.new, waiting[:1])
            if not self.state.left[waiting[0]]:
                continue
            if self._open_for(waiting[0]):
                stuck.clear()  # A pod that required another pod may find it now.
                self._fill_nodes(
                    [*self.state.existing, *self.state.new],
                    [group for group in self.order if self.state.rules[group.index].affinity],
                )
            else:
                stuck.add(waiting[0])
        self._end_early()
        self._open_for_followers([group for group in self.order if group in stuck and self.state.left[group]])

    @classmethod
    def filling_only(cls, state: PlanState, shares: Mapping[int, float]) -> "SequentialPlacer":
        """Return a placer for existing nodes: it opens no node and needs no offers."""
        return cls(state, None, shares, PlacementStrategy())

    def fill_existing_nodes(self) -> None:
        """Place pods on existing nodes and in-flight claims."""
        self._fill_nodes(self.state.existing)

    def _fill_nodes(self, nodes: Sequence[NodeState], groups: Sequence[PodGroup] | None = None) -> None:
        """Fill the nodes repeatedly while pods are placed: a pod can require another pod that comes later in the
        order."""
        moved = True
        while moved:
            moved = False
            vacancies = FreeCapacity(nodes) if len(nodes) > MANY_NODES else None
            for group in groups if groups is not None else self.order:
                for node in self._as_liked(group, vacancies.holding(group) if vacancies else nodes):
                    if not self.state.left[group]:
                        break
                    moved |= self.state.put(group, node, self.state.left[group]) > 0

    def _as_liked(self, group: PodGroup, nodes: Iterable[NodeState]) -> Iterable[NodeState]:
        """Return the nodes with the highest preference score first; all of them are already paid for.

        For pods of buffers, empty nodes come last: one that no pod and no buffer needs can be removed.
        """
        if group.constraints.preferences or self.state.rules[group.index].preferred or self._has_soft_taints:
            nodes = sorted(nodes, key=lambda node: -self._preference_score(group, node))
        return sorted(nodes, key=lambda node: node.is_empty) if group.is_buffer else nodes

    def _open_for(self, group: PodGroup) -> bool:
        """Open the best node for the group's pods; return False if no offer fits."""
        limit = self._under - self.state.price - 1e-9
        for choices in self.frontier.by_weight(group):
            small = [one for one in choices if self._small_enough(one)]
            for among in (small, choices) if 0 < len(small) < len(choices) else (choices,):
                allowed = [one for one in among if fits(group, one.one.free) and not self.state.over_limit(one)]
                able = [one for one in allowed if one.one.offer.price_per_hour < limit]
                if allowed and not able:
                    return False  # An offer of a pool with lower weight is not an alternative, even if it is cheaper.
                short = self._promising(group, able)
                best = self._best(group, short) or (self._best(group, able) if len(short) < len(able) else None)
                if best is not None:
                    self._repeat(best, group)
                    return True
        return False

    def _small_enough(self, choice: OfferChoice) -> bool:
        return self.approach.largest is None or choice.one.allocatable.get(CPU, 0) <= self.approach.largest

    def _best(self, seed: PodGroup, choices: Sequence[OfferChoice]) -> OfferChoice | None:
        best: tuple[float, ...] | None = None
        found: OfferChoice | None = None
        before = self.state.price
        left = sum(
            number * self.shares[group.index]
            for group, number in self.state.left.items()
            if number and group not in self.unplaceable
        )
        worth_all = float("inf") if self._one_host(seed) else left * (1 + 1e-9)
        for choice in choices:
            price = choice.one.offer.price_per_hour
            too_expensive = best is not None and not best[0] and price > best[2] * worth_all
            if too_expensive and self.ending is not None and before + price >= self.ending.price:
                continue  # Even with all remaining pods, this offer would be neither the best node nor the last one.
            node = self.state.open(choice)
            if self._fill_new_node(node, seed):
                worth = sum(number * self.shares[group.index] for group, number in node.planned.items())
                together = node.planned[seed] if self._one_host(seed) else 0
                each = price / worth if worth > 0 else float("inf")
                score = (self._count_stranded(node), -together, each, price, -self._preference_score(seed, node))
                if best is None or score < best:
                    best, found = score, choice
                if not self._more() and (self.ending is None or before + price < self.ending.price - 1e-12):
                    self.ending = ClosingNode(len(self.state.new) - 1, before + price, choice)
            self.state.close(node)
        return found

    def _promising(self, seed: PodGroup, choices: Sequence[OfferChoice]) -> Sequence[OfferChoice]:
        """Shorten the list of choices: with many pending pods that have rules about others, only the best choices by
        resources alone are filled on trial."""
        if len(choices) <= OFFER_SHORTLIST or self.state.pods_left <= ALL_OFFERS_PODS or self.plain:
            return choices
        order = [seed, *(group for group in self.order if group is not seed and self.state.left[group])]
        caps = [self._cap(group) for group in order]
        by_estimate = sorted(range(len(choices)), key=lambda position: self._estimate(choices[position], order, caps))
        return [choices[position] for position in by_estimate[:OFFER_SHORTLIST]]

    def _cap(self, group: PodGroup) -> tuple[int, str, Mapping[str, int] | None]:
        """Return the maximum number of pods of the group on one new node: in total, and by domain where they are
        assigned."""
        own, most = self.state.rules[group.index], self.state.left[group]
        for rule in own.spreads:
            if rule.universe is None:
                most = min(most, rule.spread.max_skew)
        if group.constraints.host_ports or any(
            counts.key == names.HOSTNAME and counts in own.feeds for counts in own.away
        ):
            most = 1
        rule_dealt, quota = own.assigned_spread, self.state.quotas.get(group.index)
        return most, rule_dealt.spread.topology_key if rule_dealt and quota is not None else "", quota

    def _estimate(
        self, choice: OfferChoice, order: Sequence[PodGroup], caps: Sequence[tuple[int, str, Mapping[str, int] | None]]
    ) -> float:
        """Return the price for the worth of the pods, if only resources and caps mattered."""
        free, worth = list(choice.one.free), 0.0
        for group, (most, key, quota) in zip(order, caps, strict=True):
            if not choice.groups >> group.index & 1:
                continue
            number = most if quota is None else min(most, quota.get(choice.one.labels.get(key, ""), 0))
            for position, amount in group.needs:
                number = min(number, free[position] // amount)
            if number > 0:
                for position, amount in group.needs:
                    free[position] -= number * amount
                worth += number * self.shares[group.index]
        return choice.one.offer.price_per_hour / worth if worth > 0 else float("inf")

    def _more(self) -> bool:
        """Return whether pods are left that a new node could hold."""
        return any(
            number and group not in self.unplaceable and self.state.rules[group.index].most(number)
            for group, number in self.state.left.items()
        )

    def _fill_new_node(self, node: NodeState, seed: PodGroup) -> bool:
        """Fill a new node, starting with the seed; return False if no pod of the seed may be placed there."""
        if not self.state.put(seed, node, self.state.left[seed]) and not self._place_with_selected(node, seed):
            return False
        moved = True
        while moved:
            moved = False
            for group in self.order:
                if self.state.left[group]:
                    moved |= self.state.put(group, node, self.state.left[group]) > 0
            moved = moved and self.has_affinity
        if self._followers and self.approach.sharing:
            self._leave_for_followers(node)
        return True

    def _leave_for_followers(self, node: NodeState) -> None:
        """Leave capacity for followers: followers that do not fit here may need another node, with a pod that they
        follow."""
        for group in self._followers:
            for selected in self.state.rules[group.index].selected_groups if node.planned.get(group) else ():
                while node.planned.get(selected, 0) > 1 and self._short(group, node):
                    self.state.take(selected, node, 1)

    def _one_host(self, group: PodGroup) -> bool:
        """Return whether all pods of the group must be on one node; the node must then hold as many of them as
        possible."""
        own = self.state.rules[group.index]
        return own.selects_itself and any(counts.key == names.HOSTNAME for counts in own.affinity)

    def _follows(self, group: PodGroup) -> bool:
        """Return whether pods of the group must be on the same node as a pod of another group."""
        own = self.state.rules[group.index]
        return not own.selects_itself and any(counts.key == names.HOSTNAME for counts in own.affinity)

    def _count_stranded(self, node: NodeState) -> int:
        """Count the followers that would not fit if all pods that they follow were on nodes like this one."""
        return sum(self._short(group, node) for group in self._followers)

    def _short(self, group: PodGroup, node: NodeState) -> int:
        """Count such followers in one group."""
        selected_groups = self.state.rules[group.index].selected_groups
        if node.planned.get(group):
            leaders = sum(
                self.state.rules[selected.index].most(self.state.left.get(selected, 0))
                for selected in selected_groups
                if selected not in self.unplaceable
            )
            return max(self.state.left[group] - leaders * node.planned[group], 0)
        return self.state.left[group] if any(selected in node.planned for selected in selected_groups) else 0

    def _place_with_selected(self, node: NodeState, seed: PodGroup) -> bool:
        """Place a seed that requires a pod which is not placed yet: that pod is placed first."""
        for selected in self.state.rules[seed.index].selected_groups:
            if self.state.left.get(selected) and self.state.put(selected, node, 1):
                if self.state.put(seed, node, self.state.left[seed]):
                    return True
                self.state.take(selected, node, 1)
        return False

    def _open_for_followers(self, stuck: Sequence[PodGroup]) -> None:
        """Open nodes for pods that must be beside other pods whose nodes are all full: one of the other pods moves to
        the new node."""
        trials = MOST_LEADS
        for group in stuck:
            own = self.state.rules[group.index]
            led = bool(own.affinity) and not own.selects_itself
            while led and self.state.left[group] and trials > 0:
                led = False
                for choice, selected in self._ways_for_two(group):
                    crowd = [other for other in self.state.new if other.planned.get(selected)]
                    asked = nlargest(min(FEW_CROWDS, trials), crowd, key=lambda one: one.planned[selected])
                    trials -= len(asked)
                    if led := self._move_selected(selected, group, choice, asked):
                        break

    def _ways_for_two(self, group: PodGroup) -> Iterator[tuple[OfferChoice, PodGroup]]:
        """Yield the cheapest offer in each domain that could hold one pod of the group and one pod that it follows,
        with the group of the latter."""
        keys = sorted(self.state.keys_of(group))
        seen: set[tuple[str | None, ...]] = set()
        for choice in self.frontier.of(group):
            there = tuple(map(choice.label, keys))
            for selected in (
                self.state.rules[group.index].selected_groups
                if there not in seen and not self.state.over_limit(choice)
                else ()
            ):
                both = map(int.__add__, group.vector, selected.vector)
                if (
                    selected.pods
                    and choice.groups >> selected.index & 1
                    and all(map(int.__le__, both, choice.one.free))
                ):
                    seen.add(there)
                    yield choice, selected

    def _move_selected(
        self, selected: PodGroup, group: PodGroup, choice: OfferChoice, asked: Iterable[NodeState]
    ) -> bool:
        """Move one followed pod from one of these nodes to a new one, if no pod on its node requires it; return
        whether that succeeded."""
        node = self.state.open(choice)
        for other in asked:
            self.state.take(selected, other, 1)
            if self.state.put(selected, node, 1):
                placed = self.state.put(group, node, self.state.left[group])
                if placed and keeps_all_rules(self.state):
                    if not other.planned:
                        self.state.close(other)
                    return True
                if placed:
                    self.state.take(group, node, placed)
                self.state.take(selected, node, 1)
            self.state.take(selected, other, -1)
        self.state.close(node)
        return False

    def _repeat(self, choice: OfferChoice, seed: PodGroup) -> None:
        """Open this node, and as many more nodes like it as would be filled in the same way."""
        while True:
            node = self.state.open(choice)
            self._fill_new_node(node, seed)
            plain = all(self.state.rules[group.index].free for group in node.planned)
            enough = all(self.state.left[group] >= number for group, number in node.planned.items())
            if not plain or not enough or self.state.over_limit(choice):
                return

    def _preference_score(self, group: PodGroup, node: NodeState) -> float:
        """Return how well this node satisfies the preferences of the group, by weight, less the number of
        PreferNoSchedule taints that the group does not tolerate."""
        shunned = sum(1 for taint in node.taints if not taint.hard and not group.constraints.tolerates(taint))
        return preference_score(self.state, group, node.labels, node.name) - shunned

    def _end_early(self) -> None:
        ending = self.ending
        if ending is None or len(self.state.new) <= ending.nodes or ending.price >= self.state.price - 1e-12:
            return
        kept = layout_of(self.state.new[ending.nodes :])
        for node, _ in reversed(kept):
            self.state.close(node)
        last = self.state.open(ending.choice)
        self._fill_nodes([last])
        if self._more() or not (
            self.plain or keeps_all_rules(self.state)
        ):  # A pod was placed there because of another pod that has now moved elsewhere.
            self.state.close(last)
            restore_layout(self.state, kept)
