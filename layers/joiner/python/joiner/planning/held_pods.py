"""Pods for which no node is launched now, because their last nodes joined and never became ready for them.

A device that an overlay or an instance type promises may never be registered: each new node would stay useless for 15
minutes. The pods have a back-off, and the plan gives it as the reason why they stay pending.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.model.pending_pods import select_pods
from joiner.planning.plan import PendingPod, Reason


@dataclass(frozen=True, slots=True)
class HeldClass:
    """A pod class that waits. `device` is the resource that its last node did not register; if it is not empty, only
    pods that request it wait. `reason` is a sentence for their events.
    """

    class_key: str
    device: str
    reason: str


def hold_back(snapshot: Snapshot, held: Iterable[HeldClass]) -> tuple[Snapshot, tuple[PendingPod, ...]]:
    """Return the snapshot without the pods that wait, and these pods with the reason. Pods with a slot on an in-flight
    claim do not wait.
    """
    by_class: dict[str, list[HeldClass]] = {}
    for one in held:
        by_class.setdefault(one.class_key, []).append(one)
    if not by_class:
        return snapshot, ()
    found: dict[str, PendingPod] = {}
    for pod in select_pods(snapshot).pending:
        holds = by_class.get(pod.class_key, ())
        reasons = [one.reason for one in holds if not one.device or pod.requests.get(one.device, 0) > 0]
        if reasons and not pod.node_name:
            found[pod.key] = PendingPod(pod.key, (Reason("", reasons[0]),))
    rest = tuple(pod for pod in snapshot.pods if pod.key not in found)
    return replace(snapshot, pods=rest), tuple(found.values())
