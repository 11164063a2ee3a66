"""Pods that no plan could place, and when to plan for them again.

The pending pods of a class are described by their number, the age of the newest, and a digest of everything that a
plan depends on (pools and their classes, nodes, claims, daemon sets, offerings that are short, pools that launch no
node for the class now; other pods and volumes for classes whose rules use them). A plan that leaves them pending starts
a back-off, and so does a launch that is refused. An unchanged class is planned again after one minute, then two, four,
eight, ten: something that only AWS knows may have changed (a subnet was tagged, a quota was raised). A changed class is
planned at once, and so is one for which a pool may be used again: the next sweep finds both.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from joiner.cluster import Pod, PodAffinityTerm
from joiner.names import CLAIM_RESOURCES, DECLARED_RESOURCES
from joiner.pools import NodeClaim
from joiner.pools.pool_holds import OF_REPLICAS, PoolHold
from joiner.pools.standalone_claims import find_claims_to_launch

BACK_OFF_SECONDS: Final = (60, 120, 240, 480, 600)
"""Seconds between two plans for an unchanged class.

Ten minutes is the longest wait after a change that sends no signal.
"""

CLASSES_KEPT: Final = 2000
"""Maximum of stored back-offs, so that they fit into one item. Pods of further classes are planned every time."""

Lists = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class PendingPodClass:
    """The pending pods of one class: their number, the creation time of the newest, and the digest of what a plan for
    them depends on."""

    pods: int
    newest: str
    digest: str


@dataclass(frozen=True, slots=True)
class PlanningBackOff:
    """Pending pods of a class for which no node could be created: how often in a row, and until when (epoch s) they
    are not planned again.
    """

    pending: PendingPodClass
    tries: int
    until: int


def describe_pending_classes(
    pods: Iterable[Pod],
    *,
    bound: Iterable[Pod],
    lists: Lists,
    unavailable: Iterable[str],
    holds: Iterable[PoolHold] = (),
) -> dict[str, PendingPodClass]:
    """Describe these pending pods, by class.

    `bound` are the pods that have a node, `unavailable` the ids of offerings that are short, `holds` those that are in
    effect now.
    """
    classes: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        classes[pod.class_key].append(pod)
    surroundings = _plan_inputs(lists, unavailable) if classes else ""
    neighbours, held = _Neighbours(bound if classes else ()), _holds_by_class(holds)
    return {
        key: PendingPodClass(
            pods=len(group),
            newest=max(pod.created for pod in group),
            digest=_digest(surroundings, *held[key], *neighbours.of(group, lists), *_volumes(group[0], lists)),
        )
        for key, group in classes.items()
    }


REPLICAS: Final = "replicas of "
"""The start of the keys for missing nodes of static pools and of standalone claims."""


def replicas_key(pool: str) -> str:
    """Return the key of the back-off for the missing nodes of a static pool, or for the node of a standalone claim.
    The keys of pod classes have no space.

    >>> replicas_key("NodePool/fixed")
    'replicas of NodePool/fixed'
    """
    return f"{REPLICAS}{pool}"


def describe_missing_replicas(
    missing: Mapping[str, int], *, lists: Lists, unavailable: Iterable[str], holds: Iterable[PoolHold] = ()
) -> dict[str, PendingPodClass]:
    """Describe the missing nodes of each static pool. `missing` counts them by the pool's key."""
    surroundings = _plan_inputs(lists, unavailable) if missing else ""
    held = _holds_by_class(hold for hold in holds if hold.pool in missing)[OF_REPLICAS]
    return {
        replicas_key(pool): PendingPodClass(number, "", _digest(surroundings, *held))
        for pool, number in missing.items()
    }


def describe_claims_to_launch(
    claims: Iterable[NodeClaim], launching: Collection[str], *, lists: Lists, unavailable: Iterable[str]
) -> dict[str, PendingPodClass]:
    """Describe the standalone claims without an instance, each like a static pool that lacks one node.

    `launching` names the claims whose launch has no result yet.
    """
    waiting = find_claims_to_launch(claims, launching)
    surroundings = _plan_inputs(lists, unavailable) if waiting else ""
    return {replicas_key(each.key): PendingPodClass(1, "", _digest(surroundings, each.uid)) for each in waiting}


def find_classes_to_plan(
    asked: Mapping[str, PendingPodClass], answers: Mapping[str, PlanningBackOff], at: int
) -> frozenset[str]:
    """Return the classes to plan for at `at` (epoch seconds)."""
    return frozenset(key for key, pending in asked.items() if not _stands(answers.get(key), pending, at))


def find_pools_short_of_nodes(
    asked: Mapping[str, PendingPodClass], pools: Iterable[str], planned: Mapping[str, int]
) -> set[str]:
    """Return the keys of the back-offs of static pools for which a plan has fewer nodes than they lack.

    `pools` are the keys of all pools, `planned` counts the nodes of the plan by the key of their pool.
    """
    nodes = {replicas_key(pool): planned.get(pool, 0) for pool in pools}
    return {key for key, one in asked.items() if key in nodes and nodes[key] < one.pods}


def keys_of_refused_claims(
    claims: Iterable[NodeClaim], refused: Collection[str], assigned: Mapping[str, Iterable[str]]
) -> set[str]:
    """Return the keys of the back-offs of pod classes, missing replicas and standalone claims whose launch was
    refused.

    `refused` names the claims, `assigned` gives the pod classes that each claim was for.
    """
    classes = {key for name in refused for key in assigned.get(name, ())}
    found = [claim for claim in claims if claim.name in refused]
    return classes | {replicas_key(key) for claim in found for key in (claim.pool_key, claim.key)}


def keys_of_unlaunched_nodes(nodes: Iterable[tuple[str, Iterable[str]]]) -> set[str]:
    """Return the keys of the back-offs of planned nodes for which EC2 cannot be asked.

    Each node is given by the key of its pool and the classes of its pods.
    """
    return {key for pool, classes in nodes for key in (*classes, replicas_key(pool))}


def back_off_after_plan(
    asked: Mapping[str, PendingPodClass], unplaceable: Collection[str], before: Mapping[str, PlanningBackOff], at: int
) -> dict[str, PlanningBackOff]:
    """Return the back-offs after a plan for all classes that left pods of the classes `unplaceable` pending.

    The refusals of other classes stay counted, because their launch may be refused again. Until then they are planned.
    """
    found = {key: _again(asked[key], before.get(key), at) for key in unplaceable if key in asked}
    found |= {
        key: replace(before[key], until=min(before[key].until, at))
        for key in asked
        if key in before and key not in unplaceable
    }
    return _kept(found)


def back_off_after_refusal(
    asked: Mapping[str, PendingPodClass], classes: Collection[str], before: Mapping[str, PlanningBackOff], at: int
) -> dict[str, PlanningBackOff]:
    """Return the back-offs after refused launches for pods of these classes, if an immediate retry cannot succeed."""
    again = {key: _again(asked[key], before.get(key), at) for key in classes if key in asked}
    return _kept({**before, **again})


def _kept(found: Mapping[str, PlanningBackOff]) -> dict[str, PlanningBackOff]:
    """Return as many as fit into the item, those of no pod class first: without theirs, buffers and static pools are
    planned with every sweep.
    """
    return dict(sorted(found.items(), key=lambda one: (" " not in one[0], one[0]))[:CLASSES_KEPT])


def _stands(answer: PlanningBackOff | None, pending: PendingPodClass, at: int) -> bool:
    return answer is not None and at < answer.until and _same(answer.pending, pending)


def _same(answered: PendingPodClass, pending: PendingPodClass) -> bool:
    """Return whether the class is unchanged. Fewer pods are no change; an additional or newer pod has no event
    with the reason yet.
    """
    return pending.digest == answered.digest and pending.pods <= answered.pods and pending.newest <= answered.newest


def _again(pending: PendingPodClass, before: PlanningBackOff | None, at: int) -> PlanningBackOff:
    if before is None or before.pending.digest != pending.digest:
        return PlanningBackOff(pending, 1, at + BACK_OFF_SECONDS[0])
    if at < before.until:  # planned together with others: its wait does not change
        return PlanningBackOff(pending, before.tries, before.until)
    tries = before.tries + 1
    return PlanningBackOff(pending, tries, at + BACK_OFF_SECONDS[min(tries, len(BACK_OFF_SECONDS)) - 1])


def _holds_by_class(holds: Iterable[PoolHold]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for hold in sorted(holds, key=lambda each: each.id):
        found[hold.class_key].append(f"held/{hold.id}/{hold.until}")
    return found


def _plan_inputs(lists: Lists, unavailable: Iterable[str]) -> str:
    parts = [f"{kind}/{_name(each)}/{_edition(each)}" for kind in DECLARED_RESOURCES for each in lists.get(kind) or ()]
    parts += [f"node/{_name(each)}" for each in lists.get("nodes") or ()]
    parts += [f"claim/{_name(each)}/{_leaving(each)}" for kind in CLAIM_RESOURCES for each in lists.get(kind) or ()]
    parts += [f"storage/{_name(each)}/{each['metadata'].get('uid', '')}" for each in lists.get("storageclasses") or ()]
    parts += [f"short/{offering}" for offering in unavailable]
    return _digest(*sorted(parts))


def _name(manifest: Mapping[str, Any]) -> str:
    metadata = manifest["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _edition(manifest: Mapping[str, Any]) -> str:
    metadata = manifest["metadata"]
    return f"{metadata.get('uid', '')}/{metadata.get('generation', '')}/{_leaving(manifest)}"


def _leaving(manifest: Mapping[str, Any]) -> str:
    return "leaving" if manifest["metadata"].get("deletionTimestamp") else ""


class _Neighbours:
    """Where pods run, by namespace and labels: one entry for all pods with the same labels, because clusters have many
    pods and few distinct labels.
    """

    def __init__(self, bound: Iterable[Pod]) -> None:
        self._nodes: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = defaultdict(list)
        self._keeping_away: dict[tuple[PodAffinityTerm, ...], list[str]] = defaultdict(list)
        for pod in bound:
            if pod.node_name and not pod.terminal:
                self._nodes[pod.namespace, tuple(sorted(pod.labels.items()))].append(pod.node_name)
                if pod.constraints.anti_affinity:
                    self._keeping_away[pod.constraints.anti_affinity].append(pod.node_name)

    def of(self, pods: Sequence[Pod], lists: Lists) -> list[str]:
        """Return where the pods run that the rules of this class name, and the pods whose anti-affinity excludes this
        class.
        """
        own, namespace = pods[0].constraints, pods[0].namespace
        terms = (*own.affinity, *own.anti_affinity)
        here = [spread.selector for spread in own.spreads]
        found = [
            f"{node} runs {where}{labels}"
            for (where, labels), nodes in (self._nodes.items() if terms or here else ())
            if any(term.selector.selects(dict(labels)) for term in terms)
            or (where == namespace and any(selector.selects(dict(labels)) for selector in here))
            for node in nodes
        ]
        distinct = {tuple(sorted(pod.labels.items())) for pod in pods}
        found += [
            f"{node} is kept free of it"
            for rules, nodes in self._keeping_away.items()
            if any(term.selector.selects(dict(labels)) for term in rules for labels in distinct)
            for node in nodes
        ]
        return sorted(found) + (_namespaces(lists) if any(map(_reads_namespaces, terms)) else [])


def _reads_namespaces(term: PodAffinityTerm) -> bool:
    return term.namespace_selector.requirements is not None


def _namespaces(lists: Lists) -> list[str]:
    return sorted(
        f"{_name(each)}{sorted((each['metadata'].get('labels') or {}).items())}"
        for each in lists.get("namespaces") or ()
    )


def _volumes(pod: Pod, lists: Lists) -> list[str]:
    """Return the volume claims that it mounts, as far as they restrict where it may run."""
    mounted = {f"{pod.namespace}/{claim}" for claim in pod.constraints.volume_claims}
    if not mounted:
        return []
    return sorted(
        f"{_name(each)}/{each['metadata'].get('uid', '')}/{(each.get('spec') or {}).get('volumeName', '')}"
        f"/{(each.get('spec') or {}).get('storageClassName', '')}/{(each.get('status') or {}).get('phase', '')}"
        for each in lists.get("persistentvolumeclaims") or ()
        if _name(each) in mounted
    )


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=10).hexdigest()
