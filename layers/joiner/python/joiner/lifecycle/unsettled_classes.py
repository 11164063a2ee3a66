"""What a scale-up has to settle about node classes: finalizers that must change, pools whose condition `NodeClassReady`
contradicts their class, and classes whose condition `Ready` does not say that they are being deleted.

A class that exists may be unusable: it is not valid, or it is being deleted. The sweep and the scale-up that it starts
both read this list, so a scale-up always finds what it was started for. Each case has a back-off like that of pending
pods (`planning_back_off`): a status or a finalizer that the API server refuses is written again after one minute, then
two, four, eight, ten.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from joiner.lifecycle.class_finalizers import find_finalizer_changes
from joiner.lifecycle.planning_back_off import Lists, PendingPodClass
from joiner.names import NODE_CLASS_RESOURCES
from joiner.pools import InvalidManifest, NodeClaim, NodeClass, NodePool
from joiner.pools.absent_classes import (
    NOT_FOUND,
    TERMINATING,
    explain_absent_class,
    says_not_valid,
    with_deleted_classes,
)
from joiner.pools.conditions import Condition, Conditions
from joiner.pools.pool_status import MESSAGE_LIMIT

UNSETTLED: Final = "unsettled "
"""The start of the keys of the back-offs. The keys of pod classes have no space."""


class ClassState(StrEnum):
    """What the pools of a class must know about it."""

    ABSENT = "does not exist"
    INVALID = "is not valid"
    DELETING = "is being deleted"
    USABLE = "exists"


@dataclass(frozen=True, slots=True)
class UnsettledClass:
    """One change that is due: `object` is the key of the pool or class that changes, `found` the reason."""

    object: str
    found: str

    @property
    def message(self) -> str:
        """Return the change as a sentence."""
        return f"{self.object} {self.found}"


def find_unsettled_classes(
    pools: Iterable[NodePool],
    lists: Lists,
    classes: Iterable[NodeClass],
    claims: Sequence[NodeClaim],
    problems: Sequence[InvalidManifest],
) -> list[UnsettledClass]:
    """Return the conditions and the finalizers that must change. `lists` has the manifests of all classes, `classes`
    are the valid ones among them, and `problems` are the mistakes of the others.

    >>> from joiner.pools import Conditions, NodeClassRef
    >>> ref = NodeClassRef("EC2NodeClass", "web")
    >>> written = Conditions.from_kube([{"type": "NodeClassReady", "status": "False", "reason": NOT_FOUND}])
    >>> pool = NodePool("a", ref, conditions=written)
    >>> invalid = {"ec2nodeclasses": [{"kind": "EC2NodeClass", "metadata": {"name": "web"}}]}
    >>> mistake = InvalidManifest("EC2NodeClass/web", "spec.role", "7", "write a text")
    >>> print(find_unsettled_classes([pool], invalid, [], [], [mistake])[0].message)
    NodePool/a has a condition NodeClassReady that does not say: EC2NodeClass/web is not valid
    """
    manifests = [manifest for plural in NODE_CLASS_RESOURCES for manifest in lists.get(plural, ())]
    states = _read_states(manifests, with_deleted_classes(classes, manifests))
    outdated = []
    for pool in pools:
        key, condition = pool.class_ref.key, pool.conditions["NodeClassReady"]
        state = states.get(key, ClassState.ABSENT)
        if pool.class_ref.kind != "Inline" and _is_outdated(condition, key, state, problems):
            found = f"has a condition NodeClassReady that does not say: {key} {state}"
            outdated.append(UnsettledClass(pool.key, found))
    holds = {
        f"{hold.kind}/{hold.name}": "has claims and no finalizer" if hold.added else "is deleted and has no claims"
        for hold in find_finalizer_changes(manifests, claims)
    }
    silent = dict.fromkeys(_list_silent(manifests), "has a condition Ready that does not say that it is being deleted")
    return outdated + [UnsettledClass(key, found) for key, found in (silent | holds).items()]


def _list_silent(manifests: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the keys of the classes that are being deleted and whose condition `Ready` does not say so."""
    return [
        f"{one['kind']}/{one['metadata']['name']}"
        for one in manifests
        if one["metadata"].get("deletionTimestamp")
        and Conditions.from_kube((one.get("status") or {}).get("conditions"))["Ready"].reason != TERMINATING
    ]


def describe_unsettled_classes(found: Iterable[UnsettledClass]) -> dict[str, PendingPodClass]:
    """Describe the changes for their back-offs, by key. A change with another reason is due at once.

    >>> describe_unsettled_classes([UnsettledClass("EC2NodeClass/web", "is deleted and has no claims")])
    {'unsettled EC2NodeClass/web': PendingPodClass(pods=1, newest='', digest='is deleted and has no claims')}
    """
    return {f"{UNSETTLED}{one.object}": PendingPodClass(1, "", one.found) for one in found}


def _read_states(manifests: Iterable[Mapping[str, Any]], classes: Iterable[NodeClass]) -> dict[str, ClassState]:
    found = {f"{one['kind']}/{one['metadata']['name']}": ClassState.INVALID for one in manifests}
    return found | {one.key: ClassState.DELETING if one.deleting else ClassState.USABLE for one in classes}


def _is_outdated(condition: Condition, key: str, state: ClassState, problems: Sequence[InvalidManifest]) -> bool:
    """Return whether the condition contradicts the state; a pool without the condition is not reported yet."""
    if not condition.reason:
        return False
    match state:
        case ClassState.ABSENT:
            return condition.reason != NOT_FOUND
        case ClassState.INVALID:
            return not _names_mistakes(condition, key, problems)
        case ClassState.DELETING:
            return condition.reason != TERMINATING
        case ClassState.USABLE:
            return condition.reason in (NOT_FOUND, TERMINATING) or says_not_valid(condition, key)


def _names_mistakes(condition: Condition, key: str, problems: Iterable[InvalidManifest]) -> bool:
    """Return whether the condition is the one of a pool whose class, by `key`, has exactly these mistakes."""
    reason, message = explain_absent_class(key, None, problems, claims=0)
    return (condition.reason, condition.message) == (reason, message[:MESSAGE_LIMIT])
