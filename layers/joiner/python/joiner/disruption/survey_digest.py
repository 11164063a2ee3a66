"""When to survey the cluster for nodes to disrupt: a digest of what decides, compared with that of the last survey.

After a survey that finds nothing, the next one finds nothing until something changes: a node, a pod on a node that may
be disrupted, the taints of a node and those of its labels that something selects, a pool, a node class, a DaemonSet, a
NodeOverlay, a PodDisruptionBudget, or a time that comes: the end of `consolidateAfter`, of a pod's protection or of a
budget's window, the least age of a node, its graceful expiration, the health of canaries. All of it is in the digest,
so there is no survey while nothing changes. Limits whose end no list shows are stored with the proposal
(`joiner.disruption.ending_limits`). The free addresses of subnets are in the digest as the node classes had them when
they were last resolved. Prices, images and offerings change without a sign in the cluster, and pods on nodes without a
claim are not in the digest.
With the same digest, the cluster is therefore surveyed again after 10, 20, 40, and then every 60 minutes. A survey with
actions that leaves the digest as it was had none of them executed: the lease was not free, or the second look differed.
The next sweep surveys the cluster again, and later ones after 2 and then every 5 minutes.

Sweeps start once a minute, and a proposal is recorded some seconds after its sweep has begun. So each time here is half
a minute shorter than the whole minutes after which a sweep may survey the cluster again.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from joiner import names
from joiner.cluster import Node, Pod
from joiner.disruption.canaries import count_replaceable
from joiner.disruption.consolidatable import CONSOLIDATABLE, has_settled
from joiner.disruption.drift import DRIFTED
from joiner.disruption.least_node_age import is_old_enough
from joiner.disruption.selected_labels import list_selected_labels
from joiner.pools import NodeClaim, NodePool
from joiner.pools.disruption_budgets import count_allowed_disruptions
from joiner.pools.disruption_protection import find_protection
from joiner.pools.expiration import replaced_at

CHANGED_SECONDS: Final = (30, 30, 90, 270)
"""Seconds from a survey to the next one under another digest, after no, one, two and more surveys in a row that found
nothing. In a cluster that changes all the time, one survey in five minutes is enough."""

UNCHANGED_SECONDS: Final = (570, 1170, 2370, 3570)
"""Seconds from a survey without actions to the next one under the same digest: first after one under a changed digest,
then after each survey that repeats the digest."""

UNEXECUTED_SECONDS: Final = (30, 90, 270)
"""The same after a survey with an action."""

Lists = Mapping[str, Sequence[Mapping[str, Any]]]


def is_survey_due(
    digest: str,
    last: str,
    last_at: int,
    idle: int,
    now: int,
    *,
    repeated: int = 0,
    urgent: bool = False,
    limits_end: int = 0,
) -> bool:
    """Return whether to survey the cluster now. Times are epoch seconds.

    An empty digest means that no node may be disrupted. `idle` is the number of surveys in a row that found nothing;
    after an `urgent` change it does not count. `repeated` is how many surveys in a row had the digest of the one
    before: a cluster that changed for hours waits no longer after its last change than any other. `limits_end` is when
    the first limit of the last survey ends, 0 for none: from then on, its answer may be another.

    >>> is_survey_due("", "a", 0, 0, 1000), is_survey_due("b", "a", 900, 1, 1000), is_survey_due("a", "a", 900, 1, 1000)
    (False, True, False)
    >>> [is_survey_due("a", "a", 900, 9, 900 + 600, repeated=repeated) for repeated in (0, 1)]
    [True, False]
    """
    if not digest:
        return False
    if digest == last and not 0 < limits_end <= now:
        waits = UNCHANGED_SECONDS if idle else UNEXECUTED_SECONDS
        wait = waits[min(repeated, len(waits) - 1)]
    else:
        wait = CHANGED_SECONDS[0 if urgent else min(idle, len(CHANGED_SECONDS) - 1)]
    return now - last_at >= wait


def digest_for_disruption(
    lists: Lists,
    claims: Sequence[NodeClaim],
    node_of: Mapping[str, Node],
    pods_of: Mapping[str, Sequence[Pod]],
    pool_of: Mapping[str, NodePool],
    *,
    events: Mapping[str, datetime],
    recommended: Collection[str],
    selected: Collection[str] = (),
    parts_beside: Sequence[str] = (),
    now: datetime,
) -> str:
    """Return the digest; empty if no node may be disrupted.

    `node_of` gives the node of each claim by its key, `pods_of` the pods of each node by its name, `pool_of` each pool
    by its key, `events` the last pod event of each claim by its key. `recommended` names claims whose Spot Instance EC2
    recommends to replace. `selected` are the keys of labels of nodes that something names (`find_selected_labels`).
    `parts_beside` describe what else decides: pools that cannot launch a node, CapacityBuffers with what they name,
    free addresses, and nodes without a claim (`describe_nodes`).
    """
    ready, parts = 0, []
    for claim in claims:
        node, pool = node_of.get(claim.key), pool_of.get(claim.pool_key)
        if node is None or pool is None or not claim.initialized:
            parts.append(f"claim/{claim.key}")
            continue
        pods = pods_of.get(node.name, ())
        settled = not (claim.deleting or node.retiring) and has_settled(claim, pool, pods, events, now)
        at_risk = claim.name in recommended and is_replaced_at_risk(claim, pool)
        old, expired = _ages(claim, pool, now)
        marked = any(claim.conditions.true(each) for each in (CONSOLIDATABLE, DRIFTED))
        matters = settled or at_risk or expired or marked
        ready += matters
        times = f"{settled}/{at_risk}/{old}/{expired}"
        parts.append(
            f"claim/{claim.key}/{_state(claim, node, selected)}/{times}/{_content(pods, now) if matters else ''}"
        )
    if not ready:
        return ""
    parts += [_of_pool(pool, claims, node_of, now) for pool in pool_of.values()]
    for plural in names.DECLARED_RESOURCES:
        parts += [f"{plural}/{_edition(each)}" for each in lists.get(plural) or ()]
    parts += [f"beside/{number}/{each}" for number, each in enumerate(parts_beside)]
    parts += [f"budget/{_edition(each)}/{_allows(each)}" for each in lists.get("poddisruptionbudgets") or ()]
    return hashlib.blake2b("\n".join(sorted(parts)).encode(), digest_size=10).hexdigest()


def describe_nodes(nodes: Iterable[Node], selected: Collection[str]) -> str:
    """Return what decides which pods may move to these nodes, in one text. `selected` are the keys of labels that
    something names."""
    return ",".join(sorted(f"{each.name}/{_openness(each, selected)}" for each in nodes))


def is_replaced_at_risk(claim: NodeClaim, pool: NodePool) -> bool:
    """Return whether the pool replaces the node of this claim if EC2 recommends it."""
    return pool.disruption.settings.rebalance == "replace" and not claim.deleting


def _state(claim: NodeClaim, node: Node, selected: Collection[str]) -> str:
    protecting = (names.DO_NOT_DISRUPT, names.DO_NOT_CONSOLIDATE)
    kept = [each.get(key, "") for each in (claim.annotations, node.annotations) for key in protecting]
    drifted = claim.conditions["Drifted"].status
    return f"{claim.deleting}/{node.retiring}/{_openness(node, selected)}/{kept}/{drifted}"


def _openness(node: Node, selected: Collection[str]) -> str:
    """Return what decides which pods may move to a node."""
    return f"{node.ready}/{list_selected_labels(node, selected)}/{sorted(map(str, node.taints))}"


def _ages(claim: NodeClaim, pool: NodePool, now: datetime) -> tuple[bool, bool]:
    """Return whether the node has the least age for consolidation, and whether its graceful expiration is due."""
    graceful = pool.disruption.settings.expiration.graceful
    end = replaced_at(claim, pool) if graceful and not claim.deleting else None
    return is_old_enough(claim, pool, now), end is not None and end <= now


def _content(pods: Iterable[Pod], now: datetime) -> str:
    kinds = Counter(
        f"{pod.class_key}/{pod.protection}/{bool(find_protection(pod, now))}/{bool(pod.deletion)}"
        for pod in pods
        if not (pod.terminal or pod.stays_with_node)
    )
    return ",".join(f"{kind}:{count}" for kind, count in sorted(kinds.items()))


def _of_pool(pool: NodePool, claims: Sequence[NodeClaim], node_of: Mapping[str, Node], now: datetime) -> str:
    """Return what the budgets of a pool allow now, and how many drifted nodes its canaries allow to replace."""
    allowed = [
        count_allowed_disruptions(
            pool.disruption.budgets, reason, nodes=100, now=now, zone=pool.disruption.settings.time_zone
        )
        for reason in ("Underutilized", "Drifted")
    ]
    replaceable = count_replaceable(pool, claims, node_of, replacing=0, now=now)
    return f"budgets/{pool.key}/{allowed}/{replaceable}"


def _edition(manifest: Mapping[str, Any]) -> str:
    metadata = manifest["metadata"]
    annotations = sorted(
        (key, value) for key, value in (metadata.get("annotations") or {}).items() if key.startswith("joiner.dev/")
    )
    named = f"{metadata.get('namespace', '')}/{metadata['name']}/{metadata.get('uid', '')}"
    return f"{named}/{metadata.get('generation', '')}/{bool(metadata.get('deletionTimestamp'))}/{annotations}"


def _allows(budget: Mapping[str, Any]) -> bool:
    return bool((budget.get("status") or {}).get("disruptionsAllowed"))
