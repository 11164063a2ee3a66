"""Reading a plan off the world in which it was made: names, slots, alternatives."""

from collections.abc import Iterator, Mapping, Sequence

from joiner import names
from joiner.cluster import Pod, Requirement, Requirements, ValueSet, total
from joiner.planning.frontier import telling_keys
from joiner.planning.groups import Group
from joiner.planning.offers import Choice
from joiner.planning.plan import ExistingNode, Offer, PendingPod, Plan, PlannedNode, Reason
from joiner.planning.rooms import Room, World
from joiner.planning.snapshot import Snapshot

PRICE_TOLERANCE = 0.10
"""How much dearer than its own offer a node's alternatives may be: the fleet chooses among them when some are short."""
MOST_ALTERNATIVES = 60


def read_off(world: World, snapshot: Snapshot, reasons: Mapping[Group, tuple[Reason, ...]], proven: float) -> Plan:
    """The plan as a value. Slots go to a group's pods in their order: the most important first."""
    queues: dict[Group, list[Pod]] = {group: list(group.pods) for group in world.left}
    existing = []
    for room in world.existing:
        if room.planned:
            pods = _take(queues, room)
            existing.append(ExistingNode(room.node, room.claim, tuple(pod.key for pod in pods), _classes(pods)))
    ordered = sorted(world.new, key=_order)
    numbers: dict[str, int] = {}
    nodes = []
    for room in ordered:
        if room.choice:
            pool = room.choice.market.pool.name
            numbers[pool] = numbers.get(pool, 0) + 1
            nodes.append(_node(world, room, f"{pool}-{numbers[pool]}", _take(queues, room)))
    pending = sorted((pod.key, reasons[group]) for group, pods in queues.items() for pod in pods)
    return Plan(
        nodes=tuple(nodes),
        existing=tuple(existing),
        pending=tuple(PendingPod(pod, why) for pod, why in pending),
        lower_bound_per_hour=round(proven, 10),
        problems=snapshot.problems,
    )


def _order(room: Room) -> tuple[object, ...]:
    """By pool and what the node is; then by its pods, so that equal nodes come in the same order every time."""
    contents = sorted((-group.constraints.priority, group.index, number) for group, number in room.planned.items())
    if room.choice is None:
        raise ValueError(f"{room.name} is no new node")
    pool = room.choice.market.pool
    return (-pool.weight, pool.key, room.choice.one.offer, sorted(room.choice.variant.labels.items()), contents)


def _take(queues: Mapping[Group, list[Pod]], room: Room) -> list[Pod]:
    pods = []
    for group, number in sorted(room.planned.items(), key=lambda one: (-one[0].constraints.priority, one[0].index)):
        pods.extend(queues[group][:number])
        del queues[group][:number]
    return pods


def _classes(pods: Sequence[Pod]) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod in pods:
        found[pod.class_key] = found.get(pod.class_key, 0) + 1
    return dict(sorted(found.items()))


def _node(world: World, room: Room, name: str, pods: Sequence[Pod]) -> PlannedNode:
    if room.choice is None:
        raise ValueError(f"{room.name} is no new node")
    pool, own, variant = room.choice.market.pool, room.choice.one, room.choice.variant
    alternatives = tuple(sorted(_alternatives(world, room, room.choice)))[:MOST_ALTERNATIVES]
    if own.offer not in alternatives:
        alternatives = (own.offer, *alternatives[: MOST_ALTERNATIVES - 1])
    alternatives = (own.offer, *(one for one in alternatives if one != own.offer))
    chosen = Requirements.of(
        Requirement(key, ValueSet.of(*values))
        for key, values in (
            (names.INSTANCE_TYPE, [one.instance_type for one in alternatives]),
            (names.ZONE, [one.zone for one in alternatives]),
            (names.CAPACITY_TYPE, [one.capacity_type for one in alternatives]),
        )
    )
    labels = {key: value for key, value in {**own.labels, **variant.labels}.items() if key not in NOT_YET}
    return PlannedNode(
        name=name,
        pool=pool.key,
        offer=own.offer,
        alternatives=alternatives,
        labels=labels,
        taints=pool.taints,
        startup_taints=pool.startup_taints,
        requirements=pool.requirements & Requirements.from_labels(variant.labels) & chosen,
        requests=total(pod.requests for pod in pods),
        daemon_overhead=own.overhead,
        capacity=own.capacity,
        allocatable=own.allocatable,
        pods=tuple(pod.key for pod in pods),
        classes=_classes(pods),
    )


NOT_YET = frozenset({names.HOSTNAME, names.REGISTERED, names.INITIALIZED, f"{names.INSTANCE_PREFIX}tenancy"})
"""Labels that a node gets when it joins, and not from its claim."""


def _alternatives(world: World, room: Room, choice: Choice) -> Iterator[Offer]:
    """Every offer that holds the same pods by the same rules for about the same price.

    Equal in each label that some rule or wish tells nodes apart by, with the same daemons, and no heavier on the pool's limits.
    """
    own, variant = choice.one, choice.variant
    keys, limits = telling_keys(world.groups), choice.market.pool.limits
    need = [before - after for before, after in zip(own.room, room.free, strict=True)]
    for one in choice.market.launchable:
        if one.offer.capacity_type != own.offer.capacity_type or one.offer.price_per_hour > own.offer.price_per_hour * (
            1 + PRICE_TOLERANCE
        ):
            continue
        if one.daemons != own.daemons or any(one.labels.get(key) != own.labels.get(key) for key in keys):
            continue
        if any(amount > there for amount, there in zip(need, one.room, strict=True)):
            continue
        if any(one.capacity.get(name, 0) > own.capacity.get(name, 0) for name in limits if name != "nodes"):
            continue
        if all(variant.bits[group.index] >> one.index & 1 for group in room.planned):
            yield one.offer
