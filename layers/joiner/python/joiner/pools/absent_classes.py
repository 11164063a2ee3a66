"""Why a pool has no usable node class: it does not exist, is not valid, is being deleted, or was not resolved yet.

The condition of the pool has the reasons of Karpenter (core `pkg/controllers/nodepool/readiness`). Unlike in Karpenter,
the class itself is not ready while it is deleted, with the reason of its pools.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from joiner.pools.conditions import Condition
from joiner.pools.invalid_manifests import InvalidManifest
from joiner.pools.node_class import NodeClass

NOT_FOUND = "NodeClassNotFound"
TERMINATING = "NodeClassTerminating"
NOT_READY = "NodeClassNotReady"


def explain_absent_class(
    key: str, declared: NodeClass | None, problems: Iterable[InvalidManifest], *, claims: int
) -> tuple[str, str]:
    """Return the reason and the message of the condition `NodeClassReady` of a pool whose class, by `key`, was not
    resolved. `claims` is how many claims name the class.

    >>> explain_absent_class("EC2NodeClass/web", None, [], claims=0)
    ('NodeClassNotFound', 'EC2NodeClass/web does not exist: create it, or name another class in the pool')
    >>> deleted = NodeClass("web", deleting=True)
    >>> explain_absent_class("EC2NodeClass/web", deleted, [], claims=2)[1][:69]
    'EC2NodeClass/web is being deleted and waits for its 2 claims: nothing'
    """
    if declared is not None and declared.deleting:
        waits = f" and waits for its {claims} claim{'' if claims == 1 else 's'}" if claims else ""
        remedy = "nothing is launched; name another class in the pool, or create it again after that"
        return TERMINATING, f"{key} is being deleted{waits}: {remedy}"
    errors = [problem.message for problem in problems if problem.object == key and problem.severity == "error"]
    if errors:
        return NOT_READY, f"{_not_valid(key)}: {'; '.join(errors)}"
    if declared is None:
        return NOT_FOUND, f"{key} does not exist: create it, or name another class in the pool"
    ready = declared.conditions["Ready"]
    if ready.status == "False":
        return ready.reason or NOT_READY, f"{key} is not ready: {ready.message}"
    return "NodeClassReadinessUnknown", f"{key} has not been resolved in EC2 yet: the next plan does it"


def with_deleted_classes(classes: Iterable[NodeClass], manifests: Iterable[Mapping[str, Any]]) -> tuple[NodeClass, ...]:
    """Return the valid classes and, of the manifests of classes that are not valid, those that are being deleted. Only
    the name and the uid of such a class are known.

    >>> deleted = {"kind": "EC2NodeClass", "metadata": {"name": "web", "deletionTimestamp": "2026-11-24T12:00:00Z"}}
    >>> [(one.key, one.deleting) for one in with_deleted_classes([], [deleted])]
    [('EC2NodeClass/web', True)]
    """
    known = {one.key: one for one in classes}
    for manifest in manifests:
        kind, metadata = manifest["kind"], manifest["metadata"]
        if metadata.get("deletionTimestamp") and f"{kind}/{metadata['name']}" not in known:
            deleted = NodeClass(str(metadata["name"]), kind, uid=str(metadata.get("uid") or ""), deleting=True)
            known[deleted.key] = deleted
    return tuple(known.values())


def says_not_valid(condition: Condition, key: str) -> bool:
    """Return whether the condition is the one of a pool whose class, by `key`, exists and is not valid."""
    return condition.reason == NOT_READY and condition.message.startswith(_not_valid(key))


def _not_valid(key: str) -> str:
    return f"{key} is not valid"
