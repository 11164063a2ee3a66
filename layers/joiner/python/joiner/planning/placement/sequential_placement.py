"""Place pods one after the other: existing nodes are filled first, then nodes are opened one by one.

Greedy and deterministic. Groups are in a fixed order. For the first group that has pods left, each candidate offer is
opened and filled on trial; the one with the lowest price for the worth of its pods (their shares of the bound) is kept.
Where one more node could take all remaining pods, that node is recorded, and used in the end if the rest of the plan is
more expensive.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from joiner import names
from joiner.cluster.resources import CPU, MEMORY
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.placement.preferences import preference_score
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.relaxation.free_capacity import FreeCapacity
from joiner.planning.state.checkpoint import layout_of, restore_layout
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.plan_state import NodeState, PlanState

ALL_OFFERS_PODS = 64
"""Up to here every offer worth a look is tried; beyond, only a shortlist."""
SHORTLIST = 24
FEW_CROWDS = 12
"""So many nodes are asked for a pod that others would follow elsewhere; MOST_LEADS for all of them together."""
MOST_LEADS = 200
MANY_NODES = 24
"""From so many on, rooms are looked at side by side first."""


@dataclass(frozen=True, slots=True)
class PlacementStrategy:
    """One way to go about it: the order of groups, the largest node (cpu, in millicores; None = any), and whether pods
    that spread over zones are dealt out to the zones beforehand. ``sharing``: of those whom others must be beside a
    node takes no more than leave one for each follower. A last resort is for when nothing else has placed every pod.
    """

    order: str = "worth"
    largest: int | None = None
    dealt: bool = False
    sharing: bool = True
    last_resort: bool = False


@dataclass(frozen=True, slots=True)
class ClosingNode:
    """One more node for all that is left: after how many rooms, and what the whole then costs."""

    rooms: int
    price: float
    choice: OfferChoice


class SequentialPlacer:
    """One attempt at a plan in one state, whose new nodes cost less than ``under`` together."""

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
        self._has_soft_taints = any(not taint.hard for room in state.existing for taint in room.taints)
        self.plain = all(state.rules[group.index].free for group in self.order)
        self.ending: ClosingNode | None = None
        self.unplaceable = {
            group
            for group in self.order
            if frontier and not any(fits(group, one.one.room) for one in frontier.of(group))
        }

    @property
    def frontier(self) -> OfferFrontier:
        if self._frontier is None:
            raise ValueError("this filler opens no nodes")
        return self._frontier

    def fill(self) -> None:
        """Places what can be placed."""
        self._fill_rooms(self.state.existing)
        stuck: set[PodGroup] = set()
        while True:
            waiting = [group for group in self.order if self.state.left[group] and group not in stuck]
            if not waiting:
                break
            self._fill_rooms(self.state.new, waiting[:1])
            if not self.state.left[waiting[0]]:
                continue
            if self._open_for(waiting[0]):
                stuck.clear()  # whoever waited for a neighbour may have one now
                self._fill_rooms(
                    [*self.state.existing, *self.state.new],
                    [group for group in self.order if self.state.rules[group.index].affinity],
                )
            else:
                stuck.add(waiting[0])
        self._end_early()
        self._open_for_followers([group for group in self.order if group in stuck and self.state.left[group]])

    @classmethod
    def filling_only(cls, state: PlanState, shares: Mapping[int, float]) -> "SequentialPlacer":
        """For what stands: it opens nothing and needs no offers."""
        return cls(state, None, shares, PlacementStrategy())

    def fill_existing_nodes(self) -> None:
        """Places what finds room on nodes that are there or on their way."""
        self._fill_rooms(self.state.existing)

    def _fill_rooms(self, rooms: Sequence[NodeState], groups: Sequence[PodGroup] | None = None) -> None:
        """Again and again as long as somebody finds a place: a pod may wait for a neighbour that comes later in the
        order.
        """
        moved = True
        while moved:
            moved = False
            vacancies = FreeCapacity(rooms) if len(rooms) > MANY_NODES else None
            for group in groups if groups is not None else self.order:
                for room in self._as_liked(group, vacancies.holding(group) if vacancies else rooms):
                    if not self.state.left[group]:
                        break
                    moved |= self.state.put(group, room, self.state.left[group]) > 0

    def _as_liked(self, group: PodGroup, rooms: Iterable[NodeState]) -> Iterable[NodeState]:
        """Those first that its pods would rather be on: all of them are paid for."""
        if group.constraints.preferences or self.state.rules[group.index].wishes or self._has_soft_taints:
            return sorted(rooms, key=lambda room: -self._preference_score(group, room))
        return rooms

    def _open_for(self, group: PodGroup) -> bool:
        """Opens the best node for the group's pods; False if there is none."""
        dearest = self._under - self.state.price - 1e-9
        for choices in self.frontier.by_weight(group):
            small = [one for one in choices if self._small_enough(one)]
            for among in (small, choices) if 0 < len(small) < len(choices) else (choices,):
                allowed = [one for one in among if fits(group, one.one.room) and not self.state.over_limit(one)]
                able = [one for one in allowed if one.one.offer.price_per_hour < dearest]
                if allowed and not able:
                    return False  # a pool of less weight is no way to be cheaper
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
            dear = best is not None and not best[0] and price > best[2] * worth_all
            if dear and self.ending is not None and before + price >= self.ending.price:
                continue  # not even everything that is left would make it the best, or the end of all
            room = self.state.open(choice)
            if self._stock(room, seed):
                worth = sum(number * self.shares[group.index] for group, number in room.planned.items())
                together = room.planned[seed] if self._one_host(seed) else 0
                each = price / worth if worth > 0 else float("inf")
                score = (self._count_stranded(room), -together, each, price, -self._preference_score(seed, room))
                if best is None or score < best:
                    best, found = score, choice
                if not self._more() and (self.ending is None or before + price < self.ending.price - 1e-12):
                    self.ending = ClosingNode(len(self.state.new) - 1, before + price, choice)
            self.state.close(room)
        return found

    def _promising(self, seed: PodGroup, choices: Sequence[OfferChoice]) -> Sequence[OfferChoice]:
        """Where many pods with rules about others wait, only the choices that look best by resources alone are filled
        on trial.
        """
        if len(choices) <= SHORTLIST or self.state.pods_left <= ALL_OFFERS_PODS or self.plain:
            return choices
        order = [seed, *(group for group in self.order if group is not seed and self.state.left[group])]
        caps = [self._cap(group) for group in order]
        looks = sorted(range(len(choices)), key=lambda position: self._estimate(choices[position], order, caps))
        return [choices[position] for position in looks[:SHORTLIST]]

    def _cap(self, group: PodGroup) -> tuple[int, str, Mapping[str, int] | None]:
        """At most how many of a group one new node takes: in all, and by domain of a label where they were dealt
        out.
        """
        own, most = self.state.rules[group.index], self.state.left[group]
        for rule in own.spreads:
            if rule.universe is None:
                most = min(most, rule.spread.max_skew)
        if group.constraints.host_ports or any(
            tally.key == names.HOSTNAME and tally in own.feeds for tally in own.away
        ):
            most = 1
        rule_dealt, quota = own.assigned_spread, self.state.quotas.get(group.index)
        return most, rule_dealt.spread.topology_key if rule_dealt and quota is not None else "", quota

    def _estimate(
        self, choice: OfferChoice, order: Sequence[PodGroup], caps: Sequence[tuple[int, str, Mapping[str, int] | None]]
    ) -> float:
        """Price for worth if resources and caps were all that mattered."""
        free, worth = list(choice.one.room), 0.0
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
        """Whether pods are left that a new node could help."""
        return any(number for group, number in self.state.left.items() if number and group not in self.unplaceable)

    def _stock(self, room: NodeState, seed: PodGroup) -> bool:
        """Fills a new room, the seed first; False if not even one of the seed's pods may go there."""
        if not self.state.put(seed, room, self.state.left[seed]) and not self._place_with_friend(room, seed):
            return False
        moved = True
        while moved:
            moved = False
            for group in self.order:
                if self.state.left[group]:
                    moved |= self.state.put(group, room, self.state.left[group]) > 0
            moved = moved and self.has_affinity
        if self._followers and self.approach.sharing:
            self._leave_for_followers(room)
        return True

    def _leave_for_followers(self, room: NodeState) -> None:
        """Followers that find no place here may need another node, and on it somebody whom they follow."""
        for group in self._followers:
            for friend in self.state.rules[group.index].friends if room.planned.get(group) else ():
                while room.planned.get(friend, 0) > 1 and self._short(group, room):
                    self.state.take(friend, room, 1)

    def _one_host(self, group: PodGroup) -> bool:
        """Whether all its pods have to be on one node, so that the node must be large enough for as many as
        possible.
        """
        own = self.state.rules[group.index]
        return own.selects_itself and any(tally.key == names.HOSTNAME for tally in own.affinity)

    def _follows(self, group: PodGroup) -> bool:
        """Whether its pods go where a pod of another group is, on the same node."""
        own = self.state.rules[group.index]
        return not own.selects_itself and any(tally.key == names.HOSTNAME for tally in own.affinity)

    def _count_stranded(self, room: NodeState) -> int:
        """How many followers would find no place if all whom they follow got nodes like this one."""
        return sum(self._short(group, room) for group in self._followers)

    def _short(self, group: PodGroup, room: NodeState) -> int:
        """The same of one group."""
        friends = self.state.rules[group.index].friends
        if room.planned.get(group):
            leaders = sum(self.state.left.get(friend, 0) for friend in friends)
            return max(self.state.left[group] - leaders * room.planned[group], 0)
        return self.state.left[group] if any(friend in room.planned for friend in friends) else 0

    def _place_with_friend(self, room: NodeState, seed: PodGroup) -> bool:
        """Lets in a seed that wants somebody beside it who is nowhere yet: that somebody goes in first."""
        for friend in self.state.rules[seed.index].friends:
            if self.state.left.get(friend) and self.state.put(friend, room, 1):
                if self.state.put(seed, room, self.state.left[seed]):
                    return True
                self.state.take(friend, room, 1)
        return False

    def _open_for_followers(self, stuck: Sequence[PodGroup]) -> None:
        """Opens nodes for pods that must be beside others, all of whom are where there is no place for more: one of
        those comes along.
        """
        trials = MOST_LEADS
        for group in stuck:
            own = self.state.rules[group.index]
            led = bool(own.affinity) and not own.selects_itself
            while led and self.state.left[group] and trials > 0:
                led = False
                for choice, friend in self._ways_for_two(group):
                    crowd = [other for other in self.state.new if other.planned.get(friend)]
                    asked = nlargest(min(FEW_CROWDS, trials), crowd, key=lambda one: one.planned[friend])
                    trials -= len(asked)
                    if led := self._move_friend(friend, group, choice, asked):
                        break

    def _ways_for_two(self, group: PodGroup) -> Iterator[tuple[OfferChoice, PodGroup]]:
        """The cheapest offer in each domain that could hold one of the group and one of those that it follows, and the
        latter.
        """
        keys = sorted(self.state.keys_of(group))
        seen: set[tuple[str | None, ...]] = set()
        for choice in self.frontier.of(group):
            there = tuple(map(choice.label, keys))
            for friend in (
                self.state.rules[group.index].friends if there not in seen and not self.state.over_limit(choice) else ()
            ):
                both = map(int.__add__, group.vector, friend.vector)
                if friend.pods and choice.groups >> friend.index & 1 and all(map(int.__le__, both, choice.one.room)):
                    seen.add(there)
                    yield choice, friend

    def _move_friend(self, friend: PodGroup, group: PodGroup, choice: OfferChoice, asked: Iterable[NodeState]) -> bool:
        """Whether one of the friends can leave one of these nodes for a new one, and nobody misses it there."""
        room = self.state.open(choice)
        for other in asked:
            self.state.take(friend, other, 1)
            if self.state.put(friend, room, 1):
                placed = self.state.put(group, room, self.state.left[group])
                if placed and keeps_all_rules(self.state):
                    if not other.planned:
                        self.state.close(other)
                    return True
                if placed:
                    self.state.take(group, room, placed)
                self.state.take(friend, room, 1)
            self.state.take(friend, other, -1)
        self.state.close(room)
        return False

    def _repeat(self, choice: OfferChoice, seed: PodGroup) -> None:
        """Opens this node, and as many more like it as would be filled just alike."""
        while True:
            room = self.state.open(choice)
            self._stock(room, seed)
            plain = all(self.state.rules[group.index].free for group in room.planned)
            enough = all(self.state.left[group] >= number for group, number in room.planned.items())
            if not plain or not enough or self.state.over_limit(choice):
                return

    def _preference_score(self, group: PodGroup, room: NodeState) -> float:
        """How many of the group's wishes this room fulfils, by weight, less what its taints wish away."""
        shunned = sum(1 for taint in room.taints if not taint.hard and not group.constraints.tolerates(taint))
        return preference_score(self.state, group, room.labels, room.name) - shunned

    def _end_early(self) -> None:
        ending = self.ending
        if ending is None or len(self.state.new) <= ending.rooms or ending.price >= self.state.price - 1e-12:
            return
        kept = layout_of(self.state.new[ending.rooms :])
        for room, _ in reversed(kept):
            self.state.close(room)
        last = self.state.open(ending.choice)
        self._fill_rooms([last])
        if self._more() or not (
            self.plain or keeps_all_rules(self.state)
        ):  # somebody was let in since because of a neighbour who now went elsewhere
            self.state.close(last)
            restore_layout(self.state, kept)


def order_groups(state: PlanState, shares: Mapping[int, float], order: str) -> list[PodGroup]:
    """Pending groups: the most important first, of those whoever needs what stands, then those with rules about others
    (they choose the node), then the largest; or those first that have the least choice (``scarce``).
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
        ties = 0 if order == "scarce" or own.friends else 2 if own.free else 1
        return (-group.constraints.priority, offers[group] > 0, ties, -size(group), group.index)

    return sorted(state.left, key=key)
