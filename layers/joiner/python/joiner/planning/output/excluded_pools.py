"""Which pools could never hold a pod, from what they declare.

For a pool without offers, this comes before the reason why it has none, because its author cannot help the pod.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from joiner import names
from joiner.cluster import Requirements, ValueSet
from joiner.planning.model.node_labels import pool_labels
from joiner.planning.plan import INCOMPATIBLE, Reason
from joiner.pools import InvalidManifest, NodePool
from joiner.pools.label_rules import WELL_KNOWN, owner_of

OWN_LABELS: Final = {"NodePool": names.NODEPOOL, "Provisioner": names.PROVISIONER}
"""The label with the name of the pool, by the pool's kind."""


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
            return f"{INCOMPATIBLE}{describe_exclusion(pool, key, values)}"
    return ""


def describe_exclusion(pool: NodePool, key: str, wanted: ValueSet) -> str:
    """Return what a pod requires and no node of the pool has; this names the label of the template, if there is one."""
    field = pool.requirement_field(key)
    label = f": the pool has {field}" if field.startswith(pool.labels_path) else ""
    return f"the pod wants {key} {wanted}, and no node of this pool has that{label}"


def find_invalid_pools(
    problems: Iterable[InvalidManifest], usable: Iterable[NodePool]
) -> Mapping[tuple[str, str], Reason]:
    """Return the reason of each pool that is not read because of its mistakes, by the label and the value that the
    nodes of such a pool would have.

    >>> wrong = InvalidManifest("NodePool/web", "spec.weight", "300", "give at most 100")
    >>> print(*find_invalid_pools([wrong], []).values())
    web: NodePool/web is invalid: spec.weight is 300: give at most 100
    """
    read = {pool.key for pool in usable}
    found: dict[tuple[str, str], Reason] = {}
    for each in problems:
        kind, _, name = each.object.partition("/")
        if each.severity == "error" and kind in OWN_LABELS and each.object not in read:
            found.setdefault((OWN_LABELS[kind], name), Reason(name, f"{each.object} is invalid: {each.message}"))
    return found


def list_required_pools(
    alternatives: Iterable[Requirements], invalid: Mapping[tuple[str, str], Reason]
) -> tuple[Reason, ...]:
    """Return the reasons of the invalid pools that one of the pod's alternatives requires by name."""
    if not invalid:
        return ()
    wanted = {
        (key, value): None
        for one in alternatives
        for key in OWN_LABELS.values()
        if one.on(key).finite
        for value in one.on(key)
    }
    return tuple(invalid[each] for each in wanted if each in invalid)


def list_other_pools(
    alternatives: Iterable[Requirements], invalid: Mapping[tuple[str, str], Reason]
) -> tuple[Reason, ...]:
    """Return the reasons of the invalid pools that no alternative of the pod requires by name, and one allows."""
    asked = list(alternatives)
    required = list_required_pools(asked, invalid)
    return tuple(
        reason
        for (key, name), reason in invalid.items()
        if reason not in required and any(name in one.on(key) for one in asked)
    )
