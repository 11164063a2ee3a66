"""Pods that are alike are planned together: a group is a class of pods in one namespace whose labels no rule tells
apart.

Time then depends on how many groups there are, not on how many pods. Pods of a stateful set, each with a volume of its
own, are one group as long as their volumes may be in the same places.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from joiner.cluster import DaemonSet, Pod, PodAffinityTerm, PodConstraints, Requirements, Volumes
from joiner.planning.inputs.capacity_buffers import is_buffer_pod
from joiner.planning.model.volume_constraints import (
    NO_VOLUME_CONSTRAINTS,
    VolumeConstraints,
    attachment_resource,
    find_volume_constraints,
)


@dataclass(frozen=True, slots=True, eq=False)
class PodGroup:
    """``pods`` are the pending ones (none for pods that run already, and daemons). ``where`` are the alternatives that
    a node must meet one of; ``mounted`` is what its volumes ask; ``refused`` says why no node can help at all, or is
    empty. ``vector`` is what one pod requests, in the order of the plan's resources, and ``needs`` the same without
    zeros. ``attaches`` are volumes that it does not have for itself, with the position of the resource that counts
    them. ``head_room``: its pods do not exist, so nobody else's rules count them.
    """

    index: int
    constraints: PodConstraints
    namespace: str
    labels: Mapping[str, str]
    pods: tuple[Pod, ...] = ()
    where: tuple[Requirements, ...] = ()
    mounted: VolumeConstraints = NO_VOLUME_CONSTRAINTS
    refused: str = ""
    vector: tuple[int, ...] = ()
    needs: tuple[tuple[int, int], ...] = ()
    attaches: tuple[tuple[int, str], ...] = ()
    head_room: bool = False

    @property
    def name(self) -> str:
        return f"{self.namespace}/{self.constraints.class_key}"

    @property
    def places(self) -> tuple[Requirements, ...]:
        """Alternatives that a node must meet one of for its volumes' sake alone."""
        return self.mounted.places


def fits(group: PodGroup, room: Sequence[int]) -> bool:
    """Whether one pod of the group can be taken from this room."""
    for position, amount in group.needs:  # noqa: SIM110 - asked so often that a generator for each answer would be felt
        if amount > room[position]:
            return False
    return True


def label_keys_of_rules(all_constraints: Iterable[PodConstraints]) -> frozenset[str]:
    """Every pod label that some pod's rule about pods reads."""
    found: set[str] = set()
    for one in all_constraints:
        found.update(*(spread.selector.keys for spread in one.spreads))
        found.update(*(term.selector.keys for term in pod_terms(one)))
    return frozenset(found)


def pod_terms(constraints: PodConstraints) -> tuple[PodAffinityTerm, ...]:
    return (*constraints.affinity, *constraints.anti_affinity, *(one.term for one in constraints.pod_preferences))


GroupIdentity = tuple[str, str, tuple[tuple[str, str], ...], str]


def group_identity(pod: Pod, keys: frozenset[str], what: VolumeConstraints = NO_VOLUME_CONSTRAINTS) -> GroupIdentity:
    """Equal for pods of one group."""
    labels = pod.labels
    told = tuple(sorted((key, labels[key]) for key in keys if key in labels)) if keys else ()
    return (pod.constraints.shape_key, pod.namespace, told, what.key)


@dataclass(frozen=True, slots=True)
class PodGroups:
    """All groups of a plan. ``of_pod`` finds that of a pod which has a place, by its key; ``daemons`` go with the
    daemon sets, in their order.
    """

    resources: tuple[str, ...]
    all: tuple[PodGroup, ...]
    pending: tuple[PodGroup, ...]
    of_pod: Mapping[str, PodGroup]
    daemons: tuple[tuple[DaemonSet, PodGroup], ...]
    drivers: Mapping[str, int]
    """By driver of volumes: the position of the resource that counts them."""

    def daemons_at(self, positions: Iterable[int]) -> list[PodGroup]:
        return [self.daemons[position][1] for position in positions]


def group_pods(
    pending: Sequence[Pod], placed: Sequence[Pod], daemon_sets: Sequence[DaemonSet], volumes: Volumes
) -> PodGroups:
    """The groups of these pods, in an order that does not depend on theirs; ``pending`` must come in order of
    importance.
    """
    said = [pod.constraints for pod in (*pending, *placed)]
    distinct = dict(zip(map(id, said), said, strict=True)).values()
    keys = label_keys_of_rules([*distinct, *(one.constraints for one in daemon_sets)])
    mounts = find_volume_constraints(pending, placed, volumes)
    waiting, members = _alike(pending, keys, mounts), _alike(placed, keys, mounts)
    named = {name for one in distinct for name in one.requests} | {name for one in daemon_sets for name in one.requests}
    drivers = {driver for one in mounts.values() for driver, _ in (*one.volumes, *one.common)}
    resources = (*sorted(named), *map(attachment_resource, sorted(drivers)))
    counted = {driver: len(named) + number for number, driver in enumerate(sorted(drivers))}
    found: list[PodGroup] = []
    of_pod: dict[str, PodGroup] = {}
    for known in sorted(waiting.keys() | members.keys()):
        mine = tuple(waiting.get(known, ()))
        sample = mine[0] if mine else members[known][0]
        one = _made(len(found), sample, mine, mounts.get(sample.key, NO_VOLUME_CONSTRAINTS), resources)
        found.append(one)
        of_pod.update((pod.key, one) for pod in members.get(known, ()))
    daemons: list[tuple[DaemonSet, PodGroup]] = []
    for daemon in sorted(daemon_sets, key=lambda one: one.key):
        vector = _vector(daemon.constraints, NO_VOLUME_CONSTRAINTS, resources)
        found.append(
            PodGroup(
                len(found), daemon.constraints, daemon.namespace, daemon.labels, vector=vector, needs=_needs(vector)
            )
        )
        daemons.append((daemon, found[-1]))
    return PodGroups(resources, tuple(found), tuple(one for one in found if one.pods), of_pod, tuple(daemons), counted)


def _alike(
    pods: Iterable[Pod], keys: frozenset[str], mounts: Mapping[str, VolumeConstraints]
) -> dict[GroupIdentity, list[Pod]]:
    """Pods by identity, which is worked out once for those that share their constraints, namespace and labels that
    count; most are like the one before them.
    """
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
                quick[same] = found.setdefault(group_identity(pod, keys, what), [])
            mine = quick[same]
        mine.append(pod)
        before = pod
    return found


def _vector(said: PodConstraints, what: VolumeConstraints, resources: Sequence[str]) -> tuple[int, ...]:
    asked = said.requests.amounts
    if what.volumes:
        asked = {**asked, **{attachment_resource(driver): number for driver, number in what.volumes}}
    return tuple([asked.get(name, 0) for name in resources])


def _needs(vector: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple([(position, amount) for position, amount in enumerate(vector) if amount > 0])


def _made(
    index: int, sample: Pod, pods: tuple[Pod, ...], what: VolumeConstraints, resources: Sequence[str]
) -> PodGroup:
    """A group of such pods; if some wait, with their alternatives of node labels, volumes included, or with why they
    have none.
    """
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
        head_room=bool(pods) and is_buffer_pod(sample.name),
    )


def _places(said: PodConstraints, what: VolumeConstraints) -> tuple[tuple[Requirements, ...], str]:
    """Alternatives of node labels, one of which must be met; or why there are none."""
    if said.resource_claims:
        return (), "it uses resource claims, which are not planned for yet"
    if what.refused:
        return (), what.refused
    both = [own & place for own, place in product(said.on_new_nodes(), what.places)]
    where = tuple(one for one in both if not one.contradictions())
    if both and not where and any(not own.contradictions() for own in said.on_new_nodes()):
        asked = " or ".join(sorted({str(own) for own in said.on_new_nodes()}))
        there = " or ".join(sorted(map(str, what.places)))
        return (
            (),
            f"its volumes can be used where nodes have {there} only, and the pod asks for {asked}: change one of them",
        )
    if both and not where:
        return (), f"its own requirements exclude each other on {', '.join(both[0].contradictions())}"
    return where, ""
