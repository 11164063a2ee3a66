"""What the manifests of pods, nodes and claims say about disruption, by the names that Kubernetes and Karpenter define.

>>> started = {"startTime": "1970-01-01T00:00:00Z"}
>>> [is_protected({"metadata": {"annotations": {DO_NOT_DISRUPT: "4h"}}, "status": started}, at) for at in (0, 4 * 3600)]
[True, False]
>>> is_protected({"metadata": {"annotations": {DO_NOT_DISRUPT: "later"}}}, 0)
False
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from joiner_local.control_plane.kube_api import Object
from tests.e2e.allowed_disruptions import seconds
from tests.e2e.neighbour_rules import selects

SOON: Final = 2.0
"""Seconds by which two clocks, or two ways to see the same event, may differ."""
DISRUPTED: Final = "karpenter.sh/disrupted"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
DO_NOT_EVICT: Final = "karpenter.sh/do-not-evict"
INITIALIZED: Final = "karpenter.sh/initialized"
MIRROR: Final = "kubernetes.io/config.mirror"
POOL_LABELS: Final = {"karpenter.sh/nodepool": "pool", "karpenter.sh/provisioner-name": "provisioner"}

Place = tuple[str, str]
"""Kind and name of a pool."""


def annotations(found: Object) -> Mapping[str, str]:
    return found["metadata"].get("annotations") or {}


def is_deleting(found: Object) -> bool:
    return "deletionTimestamp" in found["metadata"]


def condition(found: Object, kind: str) -> str:
    """Return the status of a condition; empty without it."""
    conditions = found.get("status", {}).get("conditions", [])
    return next((str(each["status"]) for each in conditions if each["type"] == kind), "")


def epoch(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def born(found: Object) -> float:
    """Return when an object was created (epoch seconds)."""
    return epoch(found["metadata"]["creationTimestamp"])


def pool_of(node: Object) -> Place:
    """Return the pool of a node; two empty names for a node without one."""
    labels = node["metadata"].get("labels") or {}
    return next(((kind, labels[key]) for key, kind in POOL_LABELS.items() if key in labels), ("", ""))


def is_initialized(node: Object) -> bool:
    return (node["metadata"].get("labels") or {}).get(INITIALIZED) == "true"


def is_tainted(node: Object) -> bool:
    return any(taint["key"] == DISRUPTED for taint in node["spec"].get("taints") or ())


def instance_of_node(node: Object) -> str:
    return str(node["spec"].get("providerID", "")).rpartition("/")[2]


def instance_of_claim(claim: Object) -> str:
    return str(claim.get("status", {}).get("providerID", "")).rpartition("/")[2]


def ends(before: Object, after: Object | None) -> bool:
    """Return whether a pod that had a node ends with this change."""
    running = not is_deleting(before) and before["spec"].get("nodeName")
    return bool(running) and (after is None or is_deleting(after))


def needs_a_node(pod: Object) -> bool:
    """Return whether a pod, once it has ended, needs another node."""
    owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences") or ()}
    final = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not (owners & {"DaemonSet", "Node"} or MIRROR in annotations(pod) or final or is_deleting(pod))


def outlasts_drain(pod: Object) -> bool:
    """Return whether a pod tolerates the taint of a node that leaves, so that it ends with the node.

    >>> [outlasts_drain({"spec": {"tolerations": [each]}}) for each in (
    ...     {"operator": "Exists"}, {"key": DISRUPTED, "operator": "Exists"}, {"key": DISRUPTED}, {"key": DISRUPTED,
    ...     "effect": "NoExecute"}, {"key": "other", "operator": "Exists"})]
    [True, True, True, False, False]
    """
    for each in pod["spec"].get("tolerations") or ():
        exists = each.get("operator") == "Exists"
        keyed = each.get("key") == DISRUPTED and (exists or not each.get("value"))
        if each.get("effect") in (None, "", "NoSchedule") and (keyed or (exists and not each.get("key"))):
            return True
    return False


def protection_of(pod: Object) -> str:
    """Return the value of the annotation against the disruption of a pod; empty without one."""
    return annotations(pod).get(DO_NOT_DISRUPT, annotations(pod).get(DO_NOT_EVICT, ""))


def is_protected(pod: Object, at: float) -> bool:
    """Return whether the annotation of a pod forbids at a time that it is disrupted. An invalid value has no effect."""
    value = protection_of(pod)
    if value == "true":
        return True
    try:
        lasts = seconds(value)
    except ValueError:
        return False
    started = pod.get("status", {}).get("startTime")
    return started is None or at + SOON < epoch(started) + lasts


def is_counted(pod: Object, budget: Object) -> bool:
    """Return whether a PodDisruptionBudget selects a pod."""
    same = pod["metadata"]["namespace"] == budget["metadata"]["namespace"]
    return same and selects(budget["spec"].get("selector"), pod["metadata"].get("labels") or {})


def has_expired(claim: Object, pool: Object, at: float) -> bool:
    """Return whether a claim has reached its greatest age. A Machine has the `ttlSecondsUntilExpired` of its pool."""
    after = str(claim["spec"].get("expireAfter", "Never"))
    if "ttlSecondsUntilExpired" in pool["spec"]:
        after = f"{pool['spec']['ttlSecondsUntilExpired']}s"
    return after != "Never" and at + SOON >= born(claim) + seconds(after)
