"""When to plan for CapacityBuffers: their virtual pods are pending in every plan, and no scheduler reports them.

All buffers are described by two digests. ``BUFFERS`` covers what users write: the buffers and the objects that they
name. When it changes, a plan is made at once. ``FREE_CAPACITY`` covers what the virtual pods may use: nodes, claims,
pools, the pods on the nodes, and offerings that are short. It changes with every pod that is bound, so a plan is made
for it at most every `LEAST_SECONDS`. Each plan is for all buffers, whatever it finds; without a change the next one is
made after the back-off of `joiner.lifecycle.planning_back_off`.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joiner.cluster import Node, Pod
from joiner.lifecycle.planning_back_off import (
    BACK_OFF_SECONDS,
    PendingPodClass,
    PlanningBackOff,
    find_classes_to_plan,
)
from joiner.names import CLAIM_RESOURCES, NODE_CLASS_RESOURCES, POOL_RESOURCES
from joiner.pools.pool_holds import PoolHold

BUFFERS: Final = "capacity buffers"
FREE_CAPACITY: Final = "free capacity for buffers"
BUFFER_KEYS: Final = (BUFFERS, FREE_CAPACITY)
"""Keys of the two digests. The keys of pod classes have no space."""

LEAST_SECONDS: Final = 30
"""Least time between two plans for changed free capacity; the interval of Karpenter's controller."""

REFERENCES: Final = ("podtemplates", "deployments", "statefulsets", "replicasets", "runtimeclasses")
DECLARED: Final = (*POOL_RESOURCES, *NODE_CLASS_RESOURCES, "nodeoverlays")


@dataclass(frozen=True, slots=True)
class BufferedClaims:
    """The names of the claims whose nodes have capacity for buffers by the last plan, and the time of that plan (epoch
    seconds).

    A node that became empty after that plan may be the one that the next plan needs: it is not retired before.
    """

    claims: frozenset[str] = frozenset()
    planned_at: int = 0


Manifest = Mapping[str, Any]
Lists = Mapping[str, Sequence[Manifest]]


def describe_buffers(
    lists: Lists,
    *,
    served: bool,
    bound: Iterable[Pod],
    nodes: Iterable[Node],
    unavailable: Iterable[str],
    holds: Iterable[PoolHold] = (),
) -> dict[str, PendingPodClass]:
    """Return the two descriptions of the buffers of these lists; none without a buffer.

    `lists` contain the buffers with their present size. `served` is whether any buffer has a virtual pod: without one
    there is no `FREE_CAPACITY`, because a plan only writes the status of the buffers. `bound` are the pods that have a
    node, `unavailable` the ids of offerings that are short, `holds` those that are in effect now.
    """
    if not lists.get("capacitybuffers"):
        return {}
    found = {BUFFERS: PendingPodClass(1, "", digest_buffers(lists))}
    if served:
        held = [f"held/{hold.id}/{hold.until}" for hold in holds]
        digest = _digest([*_capacity(lists, bound, nodes), *unavailable, *held])
        found[FREE_CAPACITY] = PendingPodClass(1, "", digest)
    return found


def digest_buffers(lists: Lists) -> str:
    """Return the digest of all buffers and of what they name; empty without a buffer."""
    buffers = lists.get("capacitybuffers") or ()
    if not buffers:
        return ""
    written = [f"{_identity(one)}/{json.dumps(one.get('spec'), sort_keys=True)}" for one in buffers]
    written += [f"{plural}/{_reference(one)}" for plural in REFERENCES for one in lists.get(plural) or ()]
    return _digest(written)


def are_buffers_due(asked: Mapping[str, PendingPodClass], answers: Mapping[str, PlanningBackOff], at: int) -> bool:
    """Return whether the buffers changed since their last plan, or their back-off ended."""
    return BUFFERS in _due(asked, answers, at)


def is_free_capacity_due(asked: Mapping[str, PendingPodClass], answers: Mapping[str, PlanningBackOff], at: int) -> bool:
    """Return whether nodes, pods or offerings changed since the last plan for the buffers, or their back-off ended."""
    due = FREE_CAPACITY in _due(asked, answers, at)
    return due and at >= _planned_at(answers.get(FREE_CAPACITY)) + LEAST_SECONDS


def _due(asked: Mapping[str, PendingPodClass], answers: Mapping[str, PlanningBackOff], at: int) -> frozenset[str]:
    return find_classes_to_plan({key: asked[key] for key in BUFFER_KEYS if key in asked}, answers, at)


def _planned_at(answer: PlanningBackOff | None) -> int:
    return answer.until - BACK_OFF_SECONDS[min(answer.tries, len(BACK_OFF_SECONDS)) - 1] if answer else 0


def _capacity(lists: Lists, bound: Iterable[Pod], nodes: Iterable[Node]) -> list[str]:
    parts = [f"{plural}/{_identity(one)}" for plural in DECLARED for one in lists.get(plural) or ()]
    parts += [
        f"claim/{one['metadata']['name']}/{_is_leaving(one)}"
        for plural in CLAIM_RESOURCES
        for one in lists.get(plural) or ()
    ]
    parts += [
        f"node/{node.name}/{node.ready}/{node.unschedulable}/{sorted(map(str, node.taints))}"
        f"/{sorted(node.labels.items())}/{sorted(node.allocatable.items())}"
        for node in nodes
    ]
    pods = Counter(f"pod/{pod.node_name}/{pod.class_key}" for pod in bound if pod.node_name and not pod.terminal)
    return [*parts, *(f"{key}/{number}" for key, number in pods.items())]


def _identity(one: Manifest) -> str:
    metadata = one["metadata"]
    named = f"{metadata.get('namespace', '')}/{metadata['name']}/{metadata.get('uid', '')}"
    return f"{named}/{metadata.get('generation', '')}/{_is_leaving(one)}"


def _is_leaving(one: Manifest) -> bool:
    return bool(one["metadata"].get("deletionTimestamp"))


def _reference(one: Manifest) -> str:
    """Return what a buffer reads of an object that it names. The status of a Deployment changes all the time."""
    metadata, spec = one["metadata"], one.get("spec") or {}
    read = [spec.get("replicas"), spec.get("template"), one.get("template")]
    read += [one[name] for name in ("overhead", "scheduling") if name in one]  # of a RuntimeClass
    return f"{metadata.get('namespace', '')}/{metadata['name']}/{json.dumps(read, sort_keys=True)}"


def _digest(parts: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(sorted(parts)).encode(), digest_size=10).hexdigest()
