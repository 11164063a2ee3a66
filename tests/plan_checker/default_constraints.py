"""Pods with the default constraints of the scheduler ("Pod Topology Spread Constraints", cluster-level defaults)."""

from collections.abc import Sequence

from tests.plan_checker.amounts import Json, Lists, namespace_of
from tests.plan_checker.node_rules import selects

CONTROLLERS = {
    "ReplicationController": "replicationcontrollers",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
}


def with_default_spreads(pod: Json, lists: Lists, constraints: Sequence[Json]) -> Json:
    """Return the pod with these constraints, unless it has its own, or no service and no controller selects it."""
    if pod["spec"].get("topologySpreadConstraints") or not constraints:
        return pod
    labels = _of_services(pod, lists)
    expressions: list[Json] = []
    for owner in pod["metadata"].get("ownerReferences") or ():
        for one in lists.get(CONTROLLERS.get(owner["kind"], "")) or ():
            if (
                owner.get("controller")
                and one["metadata"]["name"] == owner["name"]
                and namespace_of(one) == namespace_of(pod)
            ):
                selector = one["spec"].get("selector") or {}
                plain = selector if owner["kind"] == "ReplicationController" else selector.get("matchLabels") or {}
                labels.update(plain)
                if owner["kind"] != "ReplicationController":
                    expressions += selector.get("matchExpressions") or []
    if not labels and not expressions:
        return pod
    selected = {"matchLabels": labels, "matchExpressions": expressions}
    return {
        **pod,
        "spec": {
            **pod["spec"],
            "topologySpreadConstraints": [{**one, "labelSelector": selected} for one in constraints],
        },
    }


def _of_services(pod: Json, lists: Lists) -> dict[str, str]:
    found: dict[str, str] = {}
    for service in lists.get("services") or ():
        wanted = service["spec"].get("selector") or {}
        if namespace_of(service) == namespace_of(pod) and selects(
            {"matchLabels": wanted}, pod["metadata"].get("labels") or {}
        ):
            found.update(wanted)
    return found
