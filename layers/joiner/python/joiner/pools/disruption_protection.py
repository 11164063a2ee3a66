"""The annotations against disruption on a node, its claim and the pods on it: whether they hold, and until when.

Source: Karpenter, "Disruption" (controls), core `pkg/utils/pod/scheduling.go`. All voluntary disruption follows the
rules of this module: the choice of nodes, the start of a retirement, and the drain.

On a node or a claim the value ``true`` forbids disruption. On a pod it may also be a duration from the pod's start, as
Go parses it (`go_durations.py`), and a pod that has not started has all of it left. Pods of daemon sets and static pods
end with their node, so their annotation has no effect. `cluster/pods.py` reads the annotation of a pod, with
`read_protection`.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from joiner import names
from joiner.cluster import Node, Pod
from joiner.pools.go_durations import parse_go_duration
from joiner.pools.node_claim import NodeClaim
from joiner.pools.timestamps import format_timestamp, parse_timestamp

FOREVER: Final = datetime.max.replace(tzinfo=UTC)


def protected_until(protection: str, started: datetime | None, now: datetime) -> datetime | None:
    """Return until when the annotation (`protection`) of a pod forbids its disruption: FOREVER, or None if it does not
    forbid it at `now`.

    >>> noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    >>> protected_until("true", noon, noon) == FOREVER
    True
    >>> print(protected_until("4h", noon, noon + timedelta(hours=3)))
    2026-11-21 16:00:00+00:00
    >>> protected_until("4h", noon, noon + timedelta(hours=4)), protected_until("later", noon, noon)
    (None, None)
    """
    if protection == "true":
        return FOREVER
    lasts = parse_go_duration(protection)
    if lasts is None:
        return None
    until = (started or now) + lasts
    return until if until > now else None


def is_meaningless(protection: str) -> bool:
    """Return whether the annotation of a pod has a value without a meaning, and thus no effect.

    >>> [is_meaningless(value) for value in ("", "true", "false", "1.5h", "0s", "later", "-1h")]
    [False, False, False, False, False, True, True]
    """
    lasts = parse_go_duration(protection)
    return protection not in ("", "true", "false") and (lasts is None or lasts < timedelta(0))


def find_protected_node(claim: NodeClaim, node: Node, keys: Iterable[str] = (names.DO_NOT_DISRUPT,)) -> str:
    """Return which annotation (of `keys`) on the node or its claim forbids disruption, or an empty text."""
    for what, annotations in (("node", node.annotations), (claim.kind, claim.annotations)):
        for key in keys:
            if annotations.get(key) == "true":
                return f"the {what} has the annotation {key}"
    return ""


def find_protection(pod: Pod, now: datetime) -> str:
    """Return why the annotation of a pod forbids the disruption of its node, or an empty text."""
    if not pod.protection or pod.stays_with_node or pod.terminal or pod.deletion:
        return ""
    until = protected_until(pod.protection, parse_timestamp(pod.started), now)
    if until is None:
        return ""
    end = "" if until == FOREVER else f" until {format_timestamp(until)}"
    return f"pod {pod.key} has the annotation {names.DO_NOT_DISRUPT}{end}"


def ignores_pods(claim: NodeClaim) -> bool:
    """Return whether pods cannot forbid the replacement of an outdated node, because its drain ends at the claim's
    terminationGracePeriod in any case."""
    return claim.termination_grace_period is not None
