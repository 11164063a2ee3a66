"""Pools that cannot launch a node now, because their node class is missing, not valid, being deleted or not ready.

Nothing voluntary removes a node of such a pool: no node could replace it.
"""

from collections.abc import Collection, Iterable, Mapping

from joiner.pools.invalid_manifests import InvalidManifest
from joiner.pools.node_class import NodeClass
from joiner.pools.node_pool import NodePool


def find_closed_pools(
    pools: Iterable[NodePool], classes: Iterable[NodeClass], problems: Iterable[InvalidManifest]
) -> Mapping[str, str]:
    """Return the reason for each such pool, by its key. `classes` are the valid ones, and `problems` are the mistakes
    of others.

    >>> from joiner.pools import NodeClassRef
    >>> pool = NodePool("web", NodeClassRef("EC2NodeClass", "a"))
    >>> find_closed_pools([pool], [], [])
    {'NodePool/web': 'its class EC2NodeClass/a does not exist'}
    >>> find_closed_pools([pool], [], [InvalidManifest("EC2NodeClass/a", "", "", "")])
    {'NodePool/web': 'its class EC2NodeClass/a is not valid'}
    """
    by_key = {node_class.key: node_class for node_class in classes}
    mistaken = {problem.object for problem in problems if problem.severity == "error"}
    found = {pool.key: _reason(pool, by_key.get(pool.class_ref.key), mistaken) for pool in pools}
    return {key: reason for key, reason in found.items() if reason}


def _reason(pool: NodePool, node_class: NodeClass | None, mistaken: Collection[str]) -> str:
    key = pool.class_ref.key
    if node_class is None:
        return f"its class {key} {'is not valid' if key in mistaken else 'does not exist'}"
    if node_class.deleting:
        return f"its class {key} is being deleted"
    return f"its class {key} is not ready" if node_class.conditions["Ready"].status == "False" else ""
