"""Reading a plan off the world in which it was made: names, slots, alternatives."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from joiner import names
from joiner.cluster import Pod, Requirement, Requirements, Resources, ValueSet
from joiner.planning.alternatives import Alternatives
from joiner.planning.groups import Group
from joiner.planning.headroom import stands_for_room
from joiner.planning.offers import Choice
from joiner.planning.plan import ExistingNode, Offer, PendingPod, Plan, PlannedNode, Reason
from joiner.planning.rooms import Room, World
from joiner.planning.snapshot import Snapshot


def read_off(world: World, snapshot: Snapshot, reasons: Mapping[Group, tuple[Reason, ...]], proven: float) -> Plan:
    """The plan as a value. Slots go to a group's pods in their order: the most important first."""
    queues = {group.index: iter(group.pods) for group in world.left}
    existing = []
    for room in world.existing:
        if room.planned and not room.made:
            pods = _take(queues, _contents(room))
            existing.append(ExistingNode(room.node, room.claim, tuple(pod.key for pod in pods), _classes(pods)))
    numbers: dict[str, int] = {}
    writer = Writer(world)
    nodes = []
    for room, choice, contents in _in_order((*(room for room in world.existing if room.made), *world.new)):
        pool = choice.market.pool.name
        numbers[pool] = numbers.get(pool, 0) + 1
        nodes.append(writer.node(room, choice, f"{pool}-{numbers[pool]}", _take(queues, contents)))
    pending = sorted((pod.key, reasons[world.groups.all[index]]) for index, pods in queues.items() for pod in pods)
    return Plan(
        nodes=tuple(nodes),
        existing=tuple(existing),
        pending=tuple(PendingPod(pod, why) for pod, why in pending),
        lower_bound_per_hour=round(float(proven), 10),
        problems=snapshot.problems,
    )


Contents = list[tuple[int, int, int]]
"""Of a node: priority (the highest first), index and number of pods of each group."""


def _contents(room: Room) -> Contents:
    return sorted([(-group.constraints.priority, group.index, number) for group, number in room.planned.items()])


def _in_order(rooms: Iterable[Room]) -> list[tuple[Room, Choice, Contents]]:
    """By pool and what the node is; then by its pods, so that equal nodes come in the same order every time."""
    found = [(room, choice, _contents(room)) for room in rooms if (choice := room.choice or room.made)]
    kinds = {choice: _kind(choice) for _, choice, _ in found}
    ranks: dict[Choice, int] = {}
    for choice, kind in sorted(kinds.items(), key=lambda one: one[1]):
        before = next(reversed(ranks), choice)
        ranks[choice] = ranks.get(before, 0) + (kinds[before] != kind)
    return sorted(found, key=lambda one: (ranks[one[1]], one[2]))


def _kind(choice: Choice) -> tuple[object, ...]:
    pool = choice.market.pool
    return (-pool.weight, pool.key, choice.one.offer, sorted(choice.variant.labels.items()))


def _take(queues: Mapping[int, Iterator[Pod]], contents: Contents) -> list[Pod]:
    pods: list[Pod] = []
    for _, index, number in contents:
        pods.extend(islice(queues[index], number))
    return pods


def _classes(pods: Sequence[Pod]) -> dict[str, int]:
    """How many slots the pods need, by class; head-room needs none: nobody will come for it by name."""
    found: dict[str, int] = {}
    for pod in pods:
        if not stands_for_room(pod.name):
            known = pod.constraints.class_key
            found[known] = found.get(known, 0) + 1
    return dict(sorted(found.items()))


class Writer:
    """Writes nodes down; what like nodes share is worked out once."""

    def __init__(self, world: World) -> None:
        self._alternatives = Alternatives(world)
        self._resources = world.groups.resources
        self._named = {group: tuple(group.constraints.requests.amounts) for group in world.left}
        self._apart = {group for group in world.left if group.head_room or group.constraints.claims}
        self._labels: dict[Choice, dict[str, str]] = {}
        self._said: dict[tuple[Choice, tuple[int, ...]], tuple[tuple[Offer, ...], Requirements]] = {}

    def node(self, room: Room, choice: Choice, name: str, pods: Sequence[Pod]) -> PlannedNode:
        pool, own, variant = choice.market.pool, choice.one, choice.variant
        if choice not in self._labels:
            self._labels[choice] = {key: value for key, value in {**own.labels, **variant.labels}.items() if key not in NOT_YET}
        could_be = self._alternatives.of(room, choice)
        known = (choice, tuple([one.index for one in could_be]))
        if known not in self._said:
            offers = tuple([one.offer for one in could_be])
            self._said[known] = (offers, _requirements(choice, offers))
        alternatives, requirements = self._said[known]
        return PlannedNode(
            name=name,
            pool=pool.key,
            offer=own.offer,
            alternatives=alternatives,
            labels=self._labels[choice],
            taints=pool.taints,
            startup_taints=pool.startup_taints,
            requirements=requirements,
            requests=self._requests(room, choice),
            daemon_overhead=own.overhead,
            capacity=own.capacity,
            allocatable=own.allocatable,
            pods=tuple([pod.key for pod in pods]),
            classes=self._slots(room, pods),
        )

    def _requests(self, room: Room, choice: Choice) -> Resources:
        """What its pods request together: what they left of its room. A resource that somebody asks none of is named, too."""
        named = set[str]().union(*[self._named[group] for group in room.planned])
        taken = zip(self._resources, choice.one.room, room.free, strict=True)
        return Resources({name: before - after for name, before, after in taken if name in named})

    def _slots(self, room: Room, pods: Sequence[Pod]) -> dict[str, int]:
        """How many slots the pods of this room need, by class."""
        if self._apart and not self._apart.isdisjoint(room.planned):
            return _classes(pods)
        found: dict[str, int] = {}
        for group, number in room.planned.items():
            known = group.constraints.class_key
            found[known] = found.get(known, 0) + number
        return dict(sorted(found.items()))


def _requirements(choice: Choice, alternatives: Sequence[Offer]) -> Requirements:
    """The pool's, narrowed to the alternatives (which meet the pool's) and to what the pool leaves open."""
    chosen = Requirements.of(
        Requirement(key, ValueSet.of(*values))
        for key, values in (
            (names.INSTANCE_TYPE, {one.instance_type for one in alternatives}),
            (names.ZONE, {one.zone for one in alternatives}),
            (names.CAPACITY_TYPE, {one.capacity_type for one in alternatives}),
        )
    )
    return choice.market.pool.requirements & Requirements.from_labels(choice.variant.labels) & chosen


NOT_YET = frozenset({names.HOSTNAME, names.REGISTERED, names.INITIALIZED, f"{names.INSTANCE_PREFIX}tenancy"})
"""Labels that a node gets when it joins, and not from its claim."""
