"""Pods after admission ("Runtime Class", "Pod Priority and Preemption"), and the pods of capacity buffers."""

from math import ceil
from typing import Any

from tests.plan_checker.amounts import Json, Lists, amounts, asks, namespace_of

SCALABLE = {"Deployment": "deployments", "StatefulSet": "statefulsets", "ReplicaSet": "replicasets"}


def admitted(pod: Json, lists: Lists) -> Json:
    """Return the pod with the fields that its RuntimeClass adds."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    for runtime in lists.get("runtimeclasses") or ():
        if runtime["metadata"]["name"] == name:
            rules = runtime.get("scheduling") or {}
            fixed = (runtime.get("overhead") or {}).get("podFixed")
            changed: dict[str, Any] = {
                **spec,
                "nodeSelector": {**(spec.get("nodeSelector") or {}), **(rules.get("nodeSelector") or {})},
                "tolerations": [*(spec.get("tolerations") or ()), *(rules.get("tolerations") or ())],
            }
            if fixed and not spec.get("overhead"):
                changed["overhead"] = fixed
            return {**pod, "spec": changed}
    return pod


def buffer_pods(lists: Lists) -> list[Json]:
    """Return one pod for each unit of each complete CapacityBuffer."""
    found: list[Json] = []
    for buffer in lists.get("capacitybuffers") or ():
        spec, name, where = buffer["spec"], buffer["metadata"]["name"], namespace_of(buffer)
        template, replicas = _template(spec, where, lists)
        if (
            template is None
            or spec.get("provisioningStrategy", "buffer.x-k8s.io/active-capacity") != "buffer.x-k8s.io/active-capacity"
        ):
            continue
        bare = {field: value for field, value in template["spec"].items() if field not in ("volumes", "nodeName")}
        pod: Json = {
            "metadata": {"namespace": where, "labels": template.get("metadata", {}).get("labels", {})},
            "spec": bare,
        }
        pod = admitted(pod, lists)
        number = max(
            spec.get("replicas", 0), max(1, ceil(spec["percentage"] * replicas / 100)) if "percentage" in spec else 0
        )
        one = asks(pod)
        held = [
            int(limit // one[resource]) for resource, limit in amounts(spec.get("limits")).items() if one.get(resource)
        ]
        if held:
            number = min([*held, *([number] if "replicas" in spec or "percentage" in spec else [])])
        for index in range(number):
            found.append({**pod, "metadata": {**pod["metadata"], "name": f"capacity-buffer:{name}-{index}"}})
    return found


def _template(spec: Json, where: str, lists: Lists) -> tuple[Json | None, int]:
    if "podTemplateRef" in spec:
        for one in lists.get("podtemplates") or ():
            if (namespace_of(one), one["metadata"]["name"]) == (where, spec["podTemplateRef"]["name"]):
                return one["template"], 0
    elif spec.get("scalableRef", {}).get("kind") in SCALABLE:
        for one in lists.get(SCALABLE[spec["scalableRef"]["kind"]]) or ():
            if (namespace_of(one), one["metadata"]["name"]) == (where, spec["scalableRef"]["name"]):
                return one["spec"]["template"], one["spec"].get("replicas", 1)
    return None, 0
