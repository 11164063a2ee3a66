"""Changes of a pod or of a pool that may let the pod run on a node of the pool: the candidates for remedies.

Each change removes one rule. `joiner explain` proposes changes only after a plan with them placed the pod.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from joiner.catalogue import Catalogue, compute_allocatable
from joiner.catalogue.capacity_settings import find_volume_setting, list_capacity_settings
from joiner.cluster import NodeSelectorTerm, Pod, PodConstraints, Requirements, Resources, Taint, Toleration
from joiner.cluster.resources import EPHEMERAL_STORAGE
from joiner.planning import Reason
from joiner.pools import NodeClass, NodePool
from joiner.pools.label_rules import key_fault

DEVICE_FREE = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources that a pod can request less of. Without a device it needs, a pod would not work."""


@dataclass(frozen=True, slots=True)
class ChangeOfPod:
    """``text`` continues the sentence "the pod would have to"."""

    text: str
    apply: Callable[[Pod], Pod]


@dataclass(frozen=True, slots=True)
class ChangeOfPool:
    """``text`` continues the sentence "the pool would have to". ``opens`` says that it allows more instance types,
    zones or capacity types than the pod names.
    """

    text: str
    apply: Callable[[NodePool], NodePool]
    opens: bool = False


@dataclass(frozen=True, slots=True)
class ChangeOfClass:
    """``text`` continues the sentence "the class would have to". A Provisioner has the kubelet's settings itself."""

    text: str
    owner: str
    apply: Callable[[NodeClass | None, NodePool], tuple[NodeClass | None, NodePool]]


def changes_of_settings(
    node_class: NodeClass | None, pool: NodePool, reason: Reason, catalogue: Catalogue
) -> list[ChangeOfClass]:
    """Return the changes of the settings that take capacity from the nodes of a pool, and of the size of their volume
    if the nearest node is short of ephemeral storage."""
    found = list_capacity_settings(node_class, pool)
    nearest = catalogue.types.get(reason.nearest.instance_type) if reason.nearest else None
    if nearest and EPHEMERAL_STORAGE in reason.lacks:
        has = compute_allocatable(nearest, node_class, pool).get(EPHEMERAL_STORAGE, 0)
        volume = find_volume_setting(nearest, has + reason.lacks[EPHEMERAL_STORAGE], node_class, pool)
        found += [volume] if volume else []
    return [ChangeOfClass(one.change, one.owner, one.remove_from) for one in found]


def changes_of_pod(pod: Pod, pool: NodePool, reason: Reason) -> list[ChangeOfPod]:
    """Return the changes of the pod that may let it run in this pool, those that cost it most last."""
    constraints = pod.constraints
    found = [
        ChangeOfPod(f"tolerate {taint}", partial(_tolerate, taint=taint))
        for taint in _untolerated(constraints, pool.taints)
    ]
    if constraints.suits_no_node:
        found.append(ChangeOfPod("fill in or remove its empty node selector terms", partial(_with, terms=None)))
    elif any(term.names is not None for term in constraints.terms or ()):
        found.append(ChangeOfPod("drop the node name that it requires", _drop_names))
    found += [
        ChangeOfPod(f"drop {key} {_values(key, constraints)}", partial(_drop_key, key=key))
        for key in sorted({key for one in constraints.on_new_nodes() for key in one})
    ]
    if constraints.spreads:
        own = "drop its topologySpreadConstraints"
        defaults = "give it topologySpreadConstraints with ScheduleAnyway, in place of the scheduler's default ones"
        by_default = any(one.by_default for one in constraints.spreads)
        found.append(ChangeOfPod(defaults if by_default else own, partial(_with, spreads=())))
        if not by_default and any(one.hard and not one.honors_taints for one in constraints.spreads):
            found.append(ChangeOfPod("set nodeTaintsPolicy: Honor in its topologySpreadConstraints", _honor_taints))
    if constraints.affinity:
        found.append(ChangeOfPod("drop its podAffinity", partial(_with, affinity=())))
    if constraints.anti_affinity:
        found.append(ChangeOfPod("drop its podAntiAffinity", partial(_with, anti_affinity=())))
    if constraints.host_ports:
        found.append(ChangeOfPod("drop its host ports", partial(_with, host_ports=())))
    if reason.lacks and DEVICE_FREE.issuperset(reason.lacks):
        found.append(ChangeOfPod(f"request {reason.short_of} less", partial(_request_less, lacks=reason.lacks)))
    return found


def changes_of_pool(pod: Pod, pool: NodePool, wanted: Requirements) -> list[ChangeOfPool]:
    """Return the changes of the pool that may let the pod run in it. ``wanted`` is one alternative of the pod's
    requirements.
    """
    found = [
        ChangeOfPool(f"remove the taint {taint}", partial(_without_taint, taint=taint))
        for taint in _untolerated(pod.constraints, pool.taints)
    ]
    for key in sorted({*pool.requirements, *pool.labels, *wanted}):
        own, asked = pool.requirements.on(key), wanted.on(key)
        if key in pool.labels and pool.labels[key] not in asked:
            found.append(ChangeOfPool(f"allow {key} {asked}", partial(_allow, key=key, wanted=wanted)))
        elif key in wanted and (key not in pool.requirements or not own & asked):
            if not key_fault(key, legacy=pool.legacy):
                found.append(ChangeOfPool(f"allow {key} {asked}", partial(_allow, key=key, wanted=wanted)))
        elif key in pool.requirements:
            open_key = partial(_allow, key=key, wanted=Requirements())
            found.append(ChangeOfPool(f"allow other values of {key}", open_key, opens=True))
    if pool.limits:
        found.append(ChangeOfPool("raise its limits", lambda one: replace(one, limits=Resources())))
    if pool.min_values:
        found.append(ChangeOfPool("lower its minValues", lambda one: replace(one, min_values={})))
    return found


def _untolerated(constraints: PodConstraints, taints: Sequence[Taint]) -> Iterator[Taint]:
    return (taint for taint in taints if constraints.untolerated((taint,)) is not None)


def _values(key: str, constraints: PodConstraints) -> str:
    alternatives = (one[key] for one in constraints.on_new_nodes() if key in one)
    return " or ".join(dict.fromkeys(map(str, alternatives)))


def _with(pod: Pod, **changes: object) -> Pod:
    """Return the pod with other constraints. It has a class of its own, because the class is that of the manifest."""
    changed: PodConstraints = replace(pod.constraints, **changes)  # type: ignore[arg-type]
    key = f"changed {pod.class_key}"
    return replace(pod, constraints=replace(changed, class_key=key, shape_key=key))


def _tolerate(pod: Pod, taint: Taint) -> Pod:
    toleration = Toleration(taint.key, "Equal", taint.value, taint.effect)
    return _with(pod, tolerations=(*pod.constraints.tolerations, toleration))


def _honor_taints(pod: Pod) -> Pod:
    return _with(pod, spreads=tuple(replace(one, honors_taints=True) for one in pod.constraints.spreads))


def _drop_key(pod: Pod, key: str) -> Pod:
    terms = pod.constraints.terms
    left = terms and tuple(NodeSelectorTerm(_without(term.labels, key), term.names) for term in terms)
    any_node = left is None or any(term.empty for term in left)
    return _with(pod, selector=_without(pod.constraints.selector, key), terms=None if any_node else left)


def _drop_names(pod: Pod) -> Pod:
    left = tuple(NodeSelectorTerm(term.labels) for term in pod.constraints.terms or ())
    return _with(pod, terms=None if any(term.empty for term in left) else left)


def _request_less(pod: Pod, lacks: Resources) -> Pod:
    return _with(pod, requests=pod.requests - lacks)


def _without(requirements: Requirements, key: str) -> Requirements:
    return Requirements({one: values for one, values in requirements.items() if one != key})


def _without_taint(pool: NodePool, taint: Taint) -> NodePool:
    return replace(pool, taints=tuple(one for one in pool.taints if one != taint))


def _allow(pool: NodePool, key: str, wanted: Requirements) -> NodePool:
    """Return the pool with the wanted values of one label; without wanted values, with any value."""
    asked = {key: wanted[key]} if key in wanted else {}
    return replace(
        pool,
        requirements=Requirements({**_without(pool.requirements, key), **asked}),
        labels={one: value for one, value in pool.labels.items() if one != key},
    )
