"""Changes of a pod or of a pool that may let the pod run on a node of the pool: the candidates for remedies.

Each change removes one rule. `joiner explain` proposes changes only after a plan with them placed the pod.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue, compute_allocatable
from joiner.catalogue.capacity_settings import find_volume_setting, list_capacity_settings
from joiner.cluster import NodeSelectorTerm, Pod, PodConstraints, Requirements, Resources, Taint, Toleration
from joiner.cluster.quantities import format_amount, round_up_amount
from joiner.cluster.requirements import RENAMED
from joiner.cluster.resources import EPHEMERAL_STORAGE
from joiner.planning import Reason
from joiner.pools import NodeClass, NodePool
from joiner.pools.label_rules import key_fault

MOST_ALTERNATIVES: Final = 3  # terms of a required node affinity for which a pod or a pool is changed
DEVICE_FREE = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources that a pod can request less of. Without a device it needs, a pod would not work."""


@dataclass(frozen=True, slots=True)
class ChangeOfPod:
    """``text`` continues the sentence "the pod would have to". ``shared`` says that the nodes of other pods count for
    the rule that it removes, so that a plan that places those pods differently may not need the change.
    """

    text: str
    apply: Callable[[Pod], Pod]
    shared: bool = False


@dataclass(frozen=True, slots=True)
class ChangeOfPool:
    """``text`` continues the sentence "the pool would have to". ``opens`` says that it allows more instance types,
    zones or capacity types than the pod names. ``shared`` is that of `ChangeOfPod`.
    """

    text: str
    apply: Callable[[NodePool], NodePool]
    opens: bool = False
    shared: bool = False


@dataclass(frozen=True, slots=True)
class ChangeOfClass:
    """``text`` continues the sentence "the class would have to". A Provisioner has the kubelet's settings itself."""

    text: str
    owner: str
    apply: Callable[[NodeClass | None, NodePool], tuple[NodeClass | None, NodePool]]
    shared: bool = False


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
    if constraints.terms is not None:
        found.append(DROP_AFFINITY)
    if any(term.names is not None for term in constraints.terms or ()):
        found.append(DROP_NAMES)
    found += [_drop(key, constraints) for key in sorted({key for one in constraints.on_new_nodes() for key in one})]
    if constraints.spreads:
        own = "drop its topologySpreadConstraints"
        defaults = "give it topologySpreadConstraints with ScheduleAnyway, in place of the scheduler's default ones"
        by_default = any(one.by_default for one in constraints.spreads)
        found.append(ChangeOfPod(defaults if by_default else own, partial(_with, spreads=()), shared=True))
        if not by_default and any(one.hard and not one.honors_taints for one in constraints.spreads):
            found.append(ChangeOfPod("set nodeTaintsPolicy: Honor in its topologySpreadConstraints", _honor_taints))
    if constraints.affinity:
        found.append(ChangeOfPod("drop its podAffinity", partial(_with, affinity=()), shared=True))
    if constraints.anti_affinity:
        found.append(ChangeOfPod("drop its podAntiAffinity", partial(_with, anti_affinity=()), shared=True))
    if constraints.host_ports:
        found.append(ChangeOfPod("drop its host ports", partial(_with, host_ports=())))
    return [*found, *changes_of_size(pod, reason.lacks)]


def changes_of_size(pod: Pod, lacks: Resources) -> list[ChangeOfPod]:
    """Return the change of what the pod requests, by the amounts that its text names; nothing if it requests less, or
    lacks a device."""
    if not lacks or not DEVICE_FREE.issuperset(lacks):
        return []
    amounts = Resources({name: round_up_amount(name, amount) for name, amount in lacks.items()})
    if not amounts.fits(pod.requests):
        return []
    text = " and ".join(format_amount(name, amount) for name, amount in amounts.items())
    return [ChangeOfPod(f"request {text} less", partial(_request_less, amounts=amounts))]


def drops_within_terms(pod: Pod) -> Iterator[list[ChangeOfPod]]:
    """Yield the changes that leave one expression of a term of the required node affinity. Fewer would leave more, and
    without any the term would match no node."""
    for term in (pod.constraints.terms or ())[:MOST_ALTERNATIVES]:
        drops = [_drop(key, pod.constraints) for key in sorted(term.labels)]
        if term.names is not None:
            drops.append(DROP_NAMES)
        if len(drops) > 1:
            yield from ([one for one in drops if one is not kept] for kept in drops)


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
        found.append(ChangeOfPool("raise its limits", lambda one: replace(one, limits=Resources()), shared=True))
    if pool.min_values:
        found.append(ChangeOfPool("lower its minValues", lambda one: replace(one, min_values={})))
    return found


def _untolerated(constraints: PodConstraints, taints: Sequence[Taint]) -> Iterator[Taint]:
    return (taint for taint in taints if constraints.untolerated((taint,)) is not None)


def _values(key: str, constraints: PodConstraints) -> str:
    alternatives = (one[key] for one in constraints.on_new_nodes() if key in one)
    return " or ".join(dict.fromkeys(map(str, alternatives)))


def _declared(key: str, constraints: PodConstraints) -> str:
    return " (its spec.os.name)" if key == names.OS and constraints.system else ""


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


def _drop(key: str, constraints: PodConstraints) -> ChangeOfPod:
    text = f"drop {key} {_values(key, constraints)}{_declared(key, constraints)}"
    return ChangeOfPod(text, partial(_drop_key, key=key))


def _drop_key(pod: Pod, key: str) -> Pod:
    """Return the pod without its expressions about the key. A term without another one stays, and matches no node."""
    terms = pod.constraints.terms
    return _with(
        pod,
        selector=_without(pod.constraints.selector, key),
        terms=terms and tuple(NodeSelectorTerm(_without(term.labels, key), term.names) for term in terms),
        system="" if key == names.OS else pod.constraints.system,
    )


def _drop_names(pod: Pod) -> Pod:
    terms = pod.constraints.terms
    return _with(pod, terms=terms and tuple(NodeSelectorTerm(term.labels) for term in terms))


DROP_AFFINITY: Final = ChangeOfPod("drop its required node affinity", partial(_with, terms=None))
DROP_NAMES: Final = ChangeOfPod("drop the node name that it requires", _drop_names)


def _request_less(pod: Pod, amounts: Resources) -> Pod:
    return _with(pod, requests=pod.requests - amounts)


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
        instance_labels={one: value for one, value in pool.instance_labels.items() if RENAMED.get(one, one) != key},
    )
