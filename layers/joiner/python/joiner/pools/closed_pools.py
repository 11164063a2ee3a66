"""Pools that cannot launch a node now, because their node class is missing, being deleted or not ready.

Nothing voluntary removes a node of such a pool: no node could replace it.
"""

from collections.abc import Iterable, Mapping

from joiner.pools.node_class import NodeClass
from joiner.pools.node_pool import NodePool


def find_closed_pools(pools: Iterable[NodePool], classes: Iterable[NodeClass]) -> Mapping[str, str]:
    """Return the reason for each such pool, by its key.

    >>> from joiner.pools import NodeClassRef
    >>> find_closed_pools([NodePool("web", NodeClassRef("EC2NodeClass", "default"))], [])
    {'NodePool/web': 'its class EC2NodeClass/default does not exist'}
    """
    by_key = {node_class.key: node_class for node_class in classes}
    found = {pool.key: _reason(pool, by_key.get(pool.class_ref.key)) for pool in pools}
    return {key: reason for key, reason in found.items() if reason}


def _reason(pool: NodePool, node_class: NodeClass | None) -> str:
    key = pool.class_ref.key
    if node_class is None:
        return f"its class {key} does not exist"
    if node_class.deleting:
        return f"its class {key} is being deleted"
    return f"its class {key} is not ready" if node_class.conditions["Ready"].status == "False" else ""
