"""Equal pods are planned together: a group is a class of pods in one namespace whose labels no rule distinguishes, and
to which the same pools are held.

The time of planning then depends on the number of groups, not of pods. Pods of a stateful set, each with its own
volume, are one group if their volumes may be in the same domains.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import product
from typing import Final

from joiner.cluster import DaemonSet, Pod, PodAffinityTerm, PodConstraints, Requirements, Volumes
from joiner.planning.inputs.capacity_buffers import is_buffer_pod
from joiner.planning.model.pod_stages import PodStage
from joiner.planning.model.volume_constraints import (
    NO_VOLUME_CONSTRAINTS,
    VolumeConstraints,
    attachment_resource,
    find_volume_constraints,
)

AFTER_ALL_OTHERS: Final = 1 << 32
"""More than the difference between any two priorities."""
NOT_HELD: Final[Mapping[str, str]] = {}
HeldPools = Mapping[str, Mapping[str, str]]
"""Pools that launch no node for a pod class, by the class and then the pool's key, each with the reason."""


@dataclass(frozen=True, slots=True, eq=False)
class PodGroup:
    """Equal pods.

    ``pods`` are the pending ones (none for running pods and daemon pods), ``running`` counts the others. ``where`` are
    alternatives; a node must meet one of them. ``mounted`` are the constraints of its volumes. ``refused`` is why no
    node can hold the pods, or empty. ``vector`` is what one pod requests, in the order of the plan's resources,
    and ``needs`` the same without zeros. ``attaches`` are its volumes that other pods also use, with the position of
    the resource that counts them. ``held`` are the pools that launch no node for them, by key, each with the reason.
    """

    index: int
    constraints: PodConstraints
    namespace: str
    _: KW_ONLY
    labels: Mapping[str, str]
    pods: tuple[Pod, ...] = ()
    where: tuple[Requirements, ...] = ()
    mounted: VolumeConstraints = NO_VOLUME_CONSTRAINTS
    refused: str = ""
    vector: tuple[int, ...] = ()
    needs: tuple[tuple[int, int], ...] = ()
    attaches: tuple[tuple[int, str], ...] = ()
    stage: PodStage = PodStage.CURRENT
    running: int = 0
    held: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return a name that is unique in the snapshot: namespace and class of its pods."""
        return f"{self.namespace}/{self.constraints.class_key}"

    @property
    def is_buffer(self) -> bool:
        """Return whether its pods are those of capacity buffers."""
        return self.stage is PodStage.BUFFER

    @property
    def rank(self) -> int:
        """Return its place in the order of groups, smallest first: highest priority first, and pods that still run
        after all pods that need a node now."""
        return (AFTER_ALL_OTHERS if self.stage is PodStage.EVICTED else 0) - self.constraints.priority

    @property
    def places(self) -> tuple[Requirements, ...]:
        """Return the alternatives that its volumes alone require; a node must meet one of them."""
        return self.mounted.places


def fits(group: PodGroup, free: Sequence[int]) -> bool:
    """Return whether one pod of the group fits in this free capacity."""
    for position, amount in group.needs:  # noqa: SIM110 - asked so often that a generator for each answer would be felt
        if amount > free[position]:
            return False
    return True


def label_keys_of_rules(all_constraints: Iterable[PodConstraints]) -> frozenset[str]:
    """Return every pod label that a rule of some pod about other pods uses."""
    found: set[str] = set()
    for one in all_constraints:
        found.update(*(spread.selector.keys for spread in one.spreads))
        found.update(*(term.selector.keys for term in pod_terms(one)))
    return frozenset(found)


def pod_terms(constraints: PodConstraints) -> tuple[PodAffinityTerm, ...]:
    """Return all terms about other pods: affinity, anti-affinity and preferences."""
    return (*constraints.affinity, *constraints.anti_affinity, *(one.term for one in constraints.pod_preferences))


GroupIdentity = tuple[str, str, tuple[tuple[str, str], ...], str, tuple[str, ...], PodStage]


def group_identity(
    pod: Pod, keys: frozenset[str], what: VolumeConstraints, held: Mapping[str, str], stage: PodStage
) -> GroupIdentity:
    """Return a key that is equal for pods of one group."""
    labels = pod.labels
    relevant = tuple(sorted((key, labels[key]) for key in keys if key in labels)) if keys else ()
    return (pod.constraints.shape_key, pod.namespace, relevant, what.key, tuple(sorted(held)), stage)


@dataclass(frozen=True, slots=True)
class PodGroups:
    """All groups of a plan. ``of_pod`` returns the group of a placed pod by the pod's key, and ``of_reserved`` that of
    a pod with a slot on a claim. ``daemons`` are in the order of the daemon sets."""

    resources: tuple[str, ...]
    all: tuple[PodGroup, ...]
    pending: tuple[PodGroup, ...]
    of_pod: Mapping[str, PodGroup]
    of_reserved: Mapping[str, PodGroup]
    daemons: tuple[tuple[DaemonSet, PodGroup], ...]
    drivers: Mapping[str, int]
    """By volume driver: the position of the resource that counts its volumes."""

    def daemons_at(self, positions: Iterable[int]) -> list[PodGroup]:
        """Return the groups of the daemon sets at these positions."""
        return [self.daemons[position][1] for position in positions]


def group_pods(
    pending: Sequence[Pod],
    placed: Sequence[Pod],
    daemon_sets: Sequence[DaemonSet],
    volumes: Volumes,
    *,
    held: HeldPools,
    reserved: Sequence[Pod] = (),
    blocked: Collection[str] = frozenset(),
) -> PodGroups:
    """Return the groups of these pods, in an order that does not depend on the order of the pods, except that
    ``pending`` must be sorted by priority, highest first.

    ``placed`` have a node, and ``reserved`` have a slot on a claim. ``blocked`` are the keys of the pods that a blocked
    drain has not evicted yet: they are placed, and also pending or reserved.
    """
    all_constraints = [pod.constraints for pod in (*pending, *placed, *reserved)]
    distinct = dict(zip(map(id, all_constraints), all_constraints, strict=True)).values()
    keys = label_keys_of_rules([*distinct, *(one.constraints for one in daemon_sets)])
    mounts = find_volume_constraints(pending, [*placed, *reserved], volumes)
    waiting = _alike_in_stage(pending, keys, mounts, held, blocked, stage=PodStage.EVICTED)
    running = _alike_in_stage(placed, keys, mounts, held, blocked, stage=PodStage.LEAVING)
    coming = _alike_in_stage(reserved, keys, mounts, held, blocked, stage=PodStage.EVICTED)
    named = {name for one in distinct for name in one.requests} | {name for one in daemon_sets for name in one.requests}
    drivers = {driver for one in mounts.values() for driver, _ in (*one.volumes, *one.common)}
    resources = (*sorted(named), *map(attachment_resource, sorted(drivers)))
    counted = {driver: len(named) + number for number, driver in enumerate(sorted(drivers))}
    found: list[PodGroup] = []
    of_pod: dict[str, PodGroup] = {}
    of_reserved: dict[str, PodGroup] = {}
    for known in sorted(waiting.keys() | running.keys() | coming.keys()):
        mine, there, to_come = tuple(waiting.get(known, ())), running.get(known, []), coming.get(known, [])
        sample = (mine or there or to_come)[0]
        what = mounts.get(sample.key, NO_VOLUME_CONSTRAINTS) if known[-1] is not PodStage.LEAVING else None
        one = _made(len(found), sample, mine, what or NO_VOLUME_CONSTRAINTS, resources, stage=known[-1])
        one = replace(one, running=len(there) + len(to_come), held=held.get(sample.class_key, NOT_HELD))
        found.append(one)
        of_pod.update((pod.key, one) for pod in there)
        of_reserved.update((pod.key, one) for pod in to_come)
    daemons = _groups_of_daemons(daemon_sets, resources, len(found))
    with_pods, every = tuple(one for one in found if one.pods), (*found, *(group for _, group in daemons))
    return PodGroups(resources, every, with_pods, of_pod, of_reserved, daemons, counted)


def _groups_of_daemons(
    daemon_sets: Iterable[DaemonSet], resources: Sequence[str], before: int
) -> tuple[tuple[DaemonSet, PodGroup], ...]:
    """Return the daemon sets in order, each with its group; ``before`` is the number of other groups."""
    found = []
    for index, daemon in enumerate(sorted(daemon_sets, key=lambda one: one.key), before):
        vector = _vector(daemon.constraints, NO_VOLUME_CONSTRAINTS, resources)
        group = PodGroup(
            index,
            daemon.constraints,
            daemon.namespace,
            labels=daemon.labels,
            vector=vector,
            needs=_needs(vector),
        )
        found.append((daemon, group))
    return tuple(found)


def _alike_in_stage(
    pods: Sequence[Pod],
    keys: frozenset[str],
    mounts: Mapping[str, VolumeConstraints],
    held: HeldPools,
    blocked: Collection[str],
    *,
    stage: PodStage,
) -> dict[GroupIdentity, list[Pod]]:
    """Return the pods by identity; those that are blocked are in this stage, all others are CURRENT."""
    if not blocked:
        return _alike(pods, keys, mounts, held)
    found = _alike([pod for pod in pods if pod.key not in blocked], keys, mounts, held)
    there = mounts if stage is not PodStage.LEAVING else {}
    return found | _alike([pod for pod in pods if pod.key in blocked], keys, there, held, stage)


def _alike(
    pods: Iterable[Pod],
    keys: frozenset[str],
    mounts: Mapping[str, VolumeConstraints],
    held: HeldPools,
    stage: PodStage = PodStage.CURRENT,
) -> dict[GroupIdentity, list[Pod]]:
    """Return the pods by identity. The identity is computed once for pods with equal constraints, namespace and
    relevant labels; most pods equal the one before them."""
    found: dict[GroupIdentity, list[Pod]] = {}
    quick: dict[object, list[Pod]] = {}
    before: Pod | None = None
    mine: list[Pod] = []
    for pod in pods:
        if (
            mounts
            or before is None
            or pod.constraints is not before.constraints
            or pod.labels != before.labels
            or pod.namespace != before.namespace
        ):
            what = mounts.get(pod.key, NO_VOLUME_CONSTRAINTS) if mounts else NO_VOLUME_CONSTRAINTS
            same = (id(pod.constraints), pod.namespace, what.key, *map(pod.labels.get, keys))
            if same not in quick:
                own = held.get(pod.class_key, NOT_HELD)
                quick[same] = found.setdefault(group_identity(pod, keys, what, own, stage), [])
            mine = quick[same]
        mine.append(pod)
        before = pod
    return found


def _vector(constraints: PodConstraints, what: VolumeConstraints, resources: Sequence[str]) -> tuple[int, ...]:
    asked = constraints.requests.amounts
    if what.volumes:
        asked = {**asked, **{attachment_resource(driver): number for driver, number in what.volumes}}
    return tuple([asked.get(name, 0) for name in resources])


def group_mask(groups: Iterable["PodGroup"]) -> int:
    """Return a number with a bit for each of these groups, at its index."""
    mask = 0
    for group in groups:
        mask |= 1 << group.index
    return mask


def sum_needs(planned: Iterable[tuple[PodGroup, int]], resources: int) -> list[int]:
    """Return what these numbers of pods need together, one amount for each of the `resources`."""
    total = [0] * resources
    for group, number in planned:
        for position, amount in group.needs:
            total[position] += amount * number
    return total


def _needs(vector: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple([(position, amount) for position, amount in enumerate(vector) if amount > 0])


def _made(
    index: int,
    sample: Pod,
    pods: tuple[Pod, ...],
    what: VolumeConstraints,
    resources: Sequence[str],
    *,
    stage: PodStage,
) -> PodGroup:
    """Return a group of such pods. If some are pending, it has their alternatives of node labels, volumes included, or
    the reason why none exist."""
    where, refused = _places(sample.constraints, what) if pods else ((), "")
    vector = _vector(sample.constraints, what, resources)
    return PodGroup(
        index=index,
        constraints=sample.constraints,
        namespace=sample.namespace,
        labels=sample.labels,
        pods=pods,
        where=where,
        mounted=what,
        refused=refused,
        vector=vector,
        needs=_needs(vector),
        attaches=tuple([(resources.index(attachment_resource(driver)), volume) for driver, volume in what.common]),
        stage=PodStage.BUFFER if pods and is_buffer_pod(sample.name) else stage,
    )


def _places(constraints: PodConstraints, what: VolumeConstraints) -> tuple[tuple[Requirements, ...], str]:
    """Return the alternatives of node labels, one of which must be met; or the reason why none exist."""
    if constraints.resource_claims:
        return (), "it uses resource claims, which are not planned for yet"
    if what.refused:
        return (), what.refused
    both = [own & place for own, place in product(constraints.on_new_nodes(), what.places)]
    where = tuple(one for one in both if not one.contradictions())
    if both and not where and any(not own.contradictions() for own in constraints.on_new_nodes()):
        asked = " or ".join(sorted({str(own) for own in constraints.on_new_nodes()}))
        there = " or ".join(sorted(map(str, what.places)))
        return (
            (),
            f"its volumes can be used where nodes have {there} only, and the pod asks for {asked}: change one of them",
        )
    if both and not where:
        return (), f"its own requirements exclude each other on {', '.join(both[0].contradictions())}"
    return where, ""
