"""The plan while it is made: existing nodes, nodes in flight, new nodes, and the pods on them.

``PlanState`` is changed by the search and never leaves ``planning``: pods are placed and removed until a good plan is
found, then the plan is written as a value. Every rule of the scheduler is checked before a pod is placed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import ge, itemgetter
from typing import Final, TypeAlias

from joiner import names
from joiner.planning.model.computed_answers import ComputedAnswers
from joiner.planning.model.node_offers import NodeOffer, OfferChoice, PoolOffers
from joiner.planning.model.offer_cache import OfferCache
from joiner.planning.model.pod_groups import PodGroup, PodGroups
from joiner.planning.model.volume_constraints import UNLIMITED
from joiner.planning.state.limit_use import LimitUse
from joiner.planning.state.limit_violations import LimitViolation
from joiner.planning.state.node_state import NodeState, attach_volume, attachable_pods
from joiner.planning.state.pod_topology import GroupRules
from joiner.planning.state.spread_and_affinity_compilation import compile_rules
from joiner.planning.unlaunched_nodes import UnlaunchedNodes
from joiner.pools import InvalidManifest, NodePool

TOO_MANY_VOLUMES: Final = "more volumes than can be attached"
TOO_FEW_TYPES: Final = "too few instance types could hold it"
PORTS_TAKEN: Final = "its host ports are taken"

Alternatives: TypeAlias = Sequence[tuple[Sequence[int], tuple[str | None, ...]]]
"""What each offer that can replace another one holds, and its values of the labels with minValues."""


class PlanState:
    """All nodes, the pods that are left to place, and how much of each limit is used."""

    def __init__(
        self,
        groups: PodGroups,
        offered_pools: Sequence[PoolOffers],
        existing: Iterable[NodeState],
        *,
        namespaces: Mapping[str, Mapping[str, str]],
        limits: LimitUse,
        strict: bool,
        cache: OfferCache,
        unlaunched: tuple[UnlaunchedNodes, ...] = (),
        found_problems: tuple[InvalidManifest, ...] = (),
    ) -> None:
        """Create the state. ``limits`` counts the existing nodes. ``strict`` requires minValues as specified; otherwise
        minValues are kept as far as possible. ``cache`` has what is known of offers from earlier plans.
        ``unlaunched`` are the nodes that static pools and standalone claims lack; ``found_problems`` are the warnings
        about them, and about NodeOverlays that contradict others."""
        self.unlaunched, self.found_problems = unlaunched, found_problems
        self.cache, self.groups = cache, groups
        self.offered_pools, self.existing = tuple(offered_pools), tuple(existing)
        self.new: list[NodeState] = []
        self.open_pools = tuple(one for one in self.offered_pools if limits.allow_a_node(one))
        """The pools whose limits allowed a node before the plan. No topology domain comes from the others."""
        self.rules: tuple[GroupRules, ...] = compile_rules(groups.all, self.existing, self.open_pools, namespaces)
        self.assigned_spread = tuple(own.assigned_spread for own in self.rules)
        self._feeds = tuple(own.feeds for own in self.rules)
        self._of_hosts = tuple(own.of_hosts for own in self.rules)
        self._carefree = [
            own.free and not group.constraints.host_ports and not group.attaches
            for own, group in zip(self.rules, groups.all, strict=True)
        ]
        self.left: dict[PodGroup, int] = {group: len(group.pods) for group in groups.pending}
        self.limits = limits
        self.quotas: dict[int, dict[str, int]] = {}
        self.opened = 0
        """The number of nodes opened so far, including nodes that were closed again."""
        self._strict = strict
        self.narrow = strict and any(pool_offers.pool.min_values for pool_offers in offered_pools)
        """Whether a pool requires a choice of offers for each node (minValues)."""
        self._domains: dict[PodGroup, frozenset[str]] = {}
        self._offers, self._kept = dict[PodGroup, int](), dict[object, ComputedAnswers]()
        self._alternatives: dict[tuple[NodeOffer, int, frozenset[str]], Alternatives] = {}
        self.made_price = sum(node.made.one.offer.price_per_hour for node in self.existing if node.made)
        self._count_existing()

    def kept(self, kind: object, most: int | None = None) -> ComputedAnswers:
        """Return the known answers to questions of one kind about the state, at most so many."""
        return self._kept.setdefault(kind, ComputedAnswers(most))

    def _count_existing(self) -> None:
        """Count the pods of existing nodes, and the reserved instances that missing nodes of static pools use."""
        for node in self.existing:
            if node.made and node.made.one.supply is not None:
                self.limits.draw(node.made.one, 1)
            for group, number in node.held.items():
                self._count(group, node, number)

    def open(self, choice: OfferChoice) -> NodeState:
        """Open a new node of this choice; it counts against limits immediately."""
        self.opened += 1
        daemons = self.groups.daemons_at(choice.one.daemons)
        node = NodeState.with_daemons(f"new-{self.opened}", choice, daemons)
        self.reopen(node)
        return node

    def reopen(self, node: NodeState) -> None:
        """Open a closed node again, empty."""
        for daemon, number in node.held.items():
            self._count(daemon, node, number)
        self.limits.count(node, 1)
        self.new.append(node)

    def close(self, node: NodeState) -> None:
        """Close a node, the reverse of ``open``: its pods are left to place again."""
        for group, number in list(node.planned.items()):
            self.take(group, node, number)
        for daemon, number in node.held.items():
            self._count(daemon, node, -number)
        self.limits.count(node, -1)
        self.new.remove(node)

    def change_offer(self, node: NodeState, choice: OfferChoice) -> None:
        """Give a new node another offer of the same type, zone and capacity type: it differs in its price only."""
        self.limits.count(node, -1)
        node.choice = choice
        self.limits.count(node, 1)

    def release_kept_nodes(self, kept: Sequence[NodeState]) -> None:
        """Let the next search change these nodes again, the reverse of ``keep_new_nodes``."""
        self.new = [*kept, *self.new]
        self.limits.release(kept)

    def keep_new_nodes(self) -> list[NodeState]:
        """Return the new nodes, and keep them with their pods: a search after this one neither changes nor closes them,
        and they count against limits and ceilings."""
        kept, self.new = self.new, []
        self.limits.keep(kept)
        return kept

    def over_limit(self, choice: OfferChoice) -> LimitViolation | None:
        """Return the limit that one more node of this choice would exceed, or None."""
        return self.limits.find_violation(choice, self.new)

    @property
    def left_of_ceilings(self) -> tuple[int | None, float | None]:
        """Return how many more nodes, and how many more $/h, the cluster's ceilings allow; None for each ceiling that
        is not set."""
        return self.limits.left_of_ceilings(self.new)

    def planned_of(self, pool: NodePool, resource: str) -> int:
        """Return how much of a resource (or how many nodes) the new nodes of a pool have."""
        mine = [node.choice.one for node in self.new if node.choice and node.choice.pool_offers.pool.key == pool.key]
        return len(mine) if resource == "nodes" else sum(one.capacity.get(resource, 0) for one in mine)

    @property
    def price(self) -> float:
        """Return the price of all new nodes in $/h."""
        return sum(node.price for node in self.new)

    def carefree(self, group: PodGroup) -> bool:
        """Return whether no rule between pods concerns the group."""
        return self._carefree[group.index]

    def suits(self, group: PodGroup, node: NodeState) -> bool:
        """Return whether the node's taints, labels and name accept pods of the group."""
        if node.choice:
            return bool(node.choice.groups >> group.index & 1)
        known = node.answers.get(group)
        if known is None:
            constraints = group.constraints
            known = constraints.untolerated(node.taints) is None and constraints.suits(
                node.labels, node.node_name or node.name
            )
            known = known and any(place.allow(node.labels) for place in group.places)
            node.answers[group] = known
        return known

    def offers(self, group: PodGroup) -> int:
        """Return how many offers match the group's labels and tolerations."""
        if group not in self._offers:
            constraints = group.constraints
            open_to = (
                pool_offers.variants
                for pool_offers in self.offered_pools
                if pool_offers.launchable and constraints.untolerated(pool_offers.pool.taints) is None
            )
            self._offers[group] = sum(
                variant.bits[group.index].bit_count() for variants in open_to for variant in variants
            )
        return self._offers[group]

    def put(self, group: PodGroup, node: NodeState, wanted: int) -> int:
        """Place as many pods of the group on the node as rules and capacity allow, at most ``wanted``; return how
        many."""
        if wanted <= 0 or group.refused or not self.suits(group, node):
            return 0
        fitting, free = wanted, node.free
        for position, amount in group.needs:
            if amount * fitting > free[position]:
                fitting = free[position] // amount
        choice = node.choice
        bound = not self._carefree[group.index] or (
            choice is not None and self._strict and choice.pool_offers.pool.min_values
        )
        if fitting > 0 and bound:
            fitting = min(fitting, self.limit(group, node)[0])
        if fitting <= 0:
            return 0
        self._move(group, node, fitting)
        return fitting

    def place_together(self, contents: Mapping[PodGroup, int], node: NodeState, choice: OfferChoice) -> bool:
        """Place all of these pods on an empty node of this choice, or none. All groups must be ``easy``. Their rules
        about each other are checked after all of them are placed."""
        free, accepted = list(node.free), choice.groups
        for group, number in contents.items():
            if not accepted >> group.index & 1:
                return False
            for position, amount in group.needs:
                free[position] -= amount * number
        if min(free, default=0) < 0 or not self._within_quotas(contents, node):
            return False
        node.free, node.planned = free, dict(contents)
        left, host = self.left, node.labels[names.HOSTNAME]
        asking = []
        for group, number in contents.items():
            left[group] -= number
            for counts in self._feeds[group.index]:
                counts.add(node, number)
            if self._of_hosts[group.index]:
                asking.append(group)
        if any(
            counts.by_domain.get(host, 0) > most for group in asking for counts, most in self._of_hosts[group.index]
        ):
            for group, number in contents.items():
                self.take(group, node, number)
            return False
        return True

    def _within_quotas(self, contents: Mapping[PodGroup, int], node: NodeState) -> bool:
        """Return whether the quota of each assigned group for this domain is large enough; if so, subtract the pods
        from it."""
        assigned = [
            (self.quotas[group.index], rule, number)
            for group, number in contents.items()
            if (rule := self.assigned_spread[group.index])
        ]
        domains = [node.labels.get(rule.spread.topology_key, "") for _, rule, _ in assigned]
        if any(quota.get(domain, 0) < number for (quota, _, number), domain in zip(assigned, domains, strict=True)):
            return False
        for (quota, _, number), domain in zip(assigned, domains, strict=True):
            quota[domain] -= number
        return True

    def easy(self, group: PodGroup) -> bool:
        """Return whether the group's rules about other pods concern only hosts, or spreads with assigned domains."""
        own = self.rules[group.index]
        if group.refused or group.constraints.host_ports or group.attaches or self.narrow:
            return False
        if (
            own.affinity
            or own.together
            or own.alone
            or own.offer_set
            or any(counts.key != names.HOSTNAME for counts in (*own.away, *own.unwanted))
        ):
            return False
        assigned = self.assigned_spread[group.index] if group.index in self.quotas else None
        return all(rule.universe is None or rule is assigned for rule in own.spreads)

    def limit(self, group: PodGroup, node: NodeState) -> tuple[int, str]:
        """Return how many more pods of the group ports and other pods' rules allow on this node; if none, also the
        reason."""
        ports, own = group.constraints.host_ports, self.rules[group.index]
        if ports and any(port.conflicts(taken) for port in ports for taken in node.ports):
            return 0, PORTS_TAKEN
        quota = self.quotas.get(group.index)
        most, why = (
            (UNLIMITED, "")
            if own.free
            else own.limit(node, quota, self.assigned_spread[group.index] if quota is not None else None)
        )
        if most and group.attaches:
            most = min(most, attachable_pods(group, node))
            why = why or ("" if most else TOO_MANY_VOLUMES)
        if most and self._strict and node.choice and node.choice.pool_offers.pool.min_values:
            most = min(most, self._flexible_for(group, node, node.choice))
            why = why or ("" if most else TOO_FEW_TYPES)
        return (min(most, 1) if ports else most), why

    def _flexible_for(self, group: PodGroup, node: NodeState, choice: OfferChoice) -> int:
        """Return how many more pods of the group leave enough instance types that hold all pods of the node
        (minValues)."""
        need = [before - after for before, after in zip(choice.one.free, node.free, strict=True)]
        for volume in group.attaches:
            need[volume[0]] += not node.attached.get(volume)
        minimums = tuple(choice.pool_offers.pool.min_values.values())
        seen: list[set[str]] = [set() for _ in minimums]
        for number, values in sorted(self._numbers_held(group, node, choice, need), key=itemgetter(0), reverse=True):
            for known, value in zip(seen, values, strict=True):
                if value is not None:
                    known.add(value)
            if all(map(ge, map(len, seen), minimums)):
                return number
        return 0

    def _numbers_held(
        self, group: PodGroup, node: NodeState, choice: OfferChoice, need: Sequence[int]
    ) -> Iterator[tuple[int, tuple[str | None, ...]]]:
        """Yield for each offer that can replace this one, and holds a pod of the group beside this need, how many pods
        of the group it holds, and its values of the labels with minValues."""
        bits, keys = self._shared_by(choice, (*node.planned, group))
        alternatives = self._alternatives.get((choice.one, bits, keys))
        if alternatives is None:
            minimums = choice.pool_offers.pool.min_values
            alternatives = self._alternatives[choice.one, bits, keys] = [
                (one.free, tuple(map(one.label, minimums))) for one in _like(choice, bits, keys)
            ]
        needs = group.needs
        for free, values in alternatives:
            if all(map(ge, free, need)):
                number = UNLIMITED
                for position, amount in needs:
                    if amount * number > free[position] - need[position]:
                        number = (free[position] - need[position]) // amount
                if number > 0:
                    yield number, values

    def replacement_offers(self, choice: OfferChoice, inside: Iterable[PodGroup]) -> list[NodeOffer]:
        """Return the offers of any size and price that can replace this one for these pods, by labels and by rules
        about other pods only."""
        return _like(choice, *self._shared_by(choice, inside))

    def _shared_by(self, choice: OfferChoice, inside: Iterable[PodGroup]) -> tuple[int, frozenset[str]]:
        """Return the offers that all of these pods may use, and the labels in which an offer that replaces this one
        must be equal to it."""
        bits, keys, accepted = -1, frozenset[str](), choice.variant.openings.accepted
        for group in inside:
            bits &= accepted[group.index]
            keys |= self.keys_of(group)
        return bits, keys

    def keys_of(self, group: PodGroup) -> frozenset[str]:
        """Return the topology keys, without the hostname, in whose domains some rule counts the group's pods."""
        known = self._domains.get(group)
        if known is None:
            own = self.rules[group.index]
            counted = {counts.key for counts in (*own.feeds, *own.affinity, *own.away, *own.unwanted, *own.together)}
            known = self._domains[group] = frozenset(counted | {rule.spread.topology_key for rule in own.spreads}) - {
                names.HOSTNAME
            }
        return known

    def take(self, group: PodGroup, node: NodeState, number: int) -> None:
        """Take pods of the group away from the node."""
        self._move(group, node, -number)

    def _move(self, group: PodGroup, node: NodeState, number: int) -> None:
        for position, amount in group.needs:
            node.free[position] -= amount * number
        after = node.planned.get(group, 0) + number
        if after:
            node.planned[group] = after
        else:
            del node.planned[group]
        self.left[group] -= number
        for counts in self._feeds[group.index]:
            counts.add(node, number)
        for volume in group.attaches:
            attach_volume(node, volume, number)
        for port in group.constraints.host_ports:
            if number > 0:
                node.ports.append(port)
            else:
                node.ports.remove(port)
        quota = self.quotas.get(group.index) if self.quotas else None
        if quota is not None:
            rule = self.assigned_spread[group.index]
            domain = node.labels.get(rule.spread.topology_key) if rule else None
            if domain is not None:
                quota[domain] = quota.get(domain, 0) - number

    def _count(self, group: PodGroup, node: NodeState, number: int) -> None:
        for counts in self._feeds[group.index]:
            counts.add(node, number)

    @property
    def pods_left(self) -> int:
        """Return the number of pods that have no node yet."""
        return sum(self.left.values())


def _like(choice: OfferChoice, bits: int, keys: Iterable[str]) -> list[NodeOffer]:
    """Return the offers among these bits whose labels of these keys are equal to those of the chosen one."""
    alike = [(key, choice.one.label(key)) for key in sorted(keys)]
    return [
        one
        for one in choice.variant.launchable
        if bits >> one.index & 1
        and (one is choice.one or one.supply is None)
        and all(one.label(key) == value for key, value in alike)
    ]
