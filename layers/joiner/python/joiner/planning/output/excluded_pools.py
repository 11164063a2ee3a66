"""Which pools could never hold a pod, from what they declare.

For a pool without offers, this comes before the reason why it has none, because its author cannot help the pod.
"""

from collections.abc import Sequence

from joiner.cluster import Requirements
from joiner.planning.model.node_offers import pool_labels
from joiner.planning.plan import INCOMPATIBLE
from joiner.pools import NodePool
from joiner.pools.label_rules import WELL_KNOWN, owner_of


def find_excluded_label(alternatives: Sequence[Requirements], pool: NodePool) -> str:
    """Return the reason if each of the pod's alternatives requires a label that no node of the pool can have; empty
    otherwise.

    >>> from joiner.cluster import ValueSet
    >>> from joiner.pools import NodeClassRef
    >>> pool = NodePool("web", NodeClassRef("EC2NodeClass", "default"), labels={"team": "web"})
    >>> find_excluded_label([Requirements({"team": ValueSet.of("data")})], pool)
    'incompatible requirements: the pod wants team In [data], and no node of this pool has that'
    >>> find_excluded_label([Requirements({"topology.kubernetes.io/zone": ValueSet.of("us-east-1a")})], pool)
    ''
    """
    found = [_excluded(alternative, pool) for alternative in alternatives]
    return found[0] if found and all(found) else ""


def _excluded(alternative: Requirements, pool: NodePool) -> str:
    own = pool_labels(pool)
    for key, values in sorted(alternative.items()):
        alone = Requirements({key: values})
        if key in own:
            possible = alone.allow({key: own[key]})
        elif key in pool.requirements:
            possible = not (alone & Requirements({key: pool.requirements.on(key)})).contradictions()
        else:
            possible = key in WELL_KNOWN or bool(owner_of(key, legacy=True)) or alone.allow({})
        if not possible:
            return f"{INCOMPATIBLE}the pod wants {key} {values}, and no node of this pool has that"
    return ""
