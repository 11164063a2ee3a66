"""The fields that a snapshot keeps of each manifest: those that a plan reads, and none that could contain a secret
(environment variables, commands)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from joiner.cluster.list_pages import is_read_annotation

Manifest = Mapping[str, Any]

METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "deletionTimestamp",
    "creationTimestamp",
    "ownerReferences",
    "finalizers",
)
POD_SPEC: Final = (
    "affinity",
    "hostNetwork",
    "nodeName",
    "nodeSelector",
    "os",
    "overhead",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
)
POD_STATUS: Final = ("phase", "nominatedNodeName", "startTime", "conditions", "resources", "allocatedResources")
CONTAINER: Final = ("name", "resources", "restartPolicy", "ports")


def redact(manifest: Manifest, plural: str) -> Manifest:
    """Return one manifest of a list (by the kind's plural name) without the fields that no plan reads."""
    metadata = manifest.get("metadata") or {}
    if plural not in REDACTED:
        return {**manifest, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}
    annotations = {
        name: value
        for name, value in (metadata.get("annotations") or {}).items()
        if plural == "nodes" or is_read_annotation(name)
    }
    kept = {name: metadata[name] for name in METADATA if metadata.get(name)}
    if plural in ("podtemplates", "daemonsets") and metadata.get("generation"):
        kept["generation"] = metadata["generation"]
    if annotations and plural in ("nodes", "pods"):
        kept["annotations"] = annotations
    return {"metadata": kept, **REDACTED[plural](manifest)}


def _pod(manifest: Manifest) -> dict[str, Any]:
    return {"spec": _pod_spec(manifest.get("spec") or {}), "status": _pod_status(manifest.get("status") or {})}


def _daemon_set(manifest: Manifest) -> dict[str, Any]:
    return {"spec": {"template": _template((manifest.get("spec") or {}).get("template") or {})}}


def _workload(manifest: Manifest) -> dict[str, Any]:
    spec = manifest.get("spec") or {}
    kept = {name: spec[name] for name in ("replicas", "selector") if name in spec}
    return {"spec": {**kept, "template": _template(spec.get("template") or {})}}


def _pod_template(manifest: Manifest) -> dict[str, Any]:
    return {"template": _template(manifest.get("template") or {})}


def _service(manifest: Manifest) -> dict[str, Any]:
    return {"spec": {"selector": (manifest.get("spec") or {}).get("selector") or {}}}


def _node(manifest: Manifest) -> dict[str, Any]:
    status = manifest.get("status") or {}
    shown = {name: status[name] for name in ("capacity", "allocatable", "conditions") if name in status}
    return {"spec": manifest.get("spec") or {}, "status": shown}


def _template(template: Manifest) -> dict[str, Any]:
    labels = (template.get("metadata") or {}).get("labels") or {}
    return {"metadata": {"labels": labels}, "spec": _pod_spec(template.get("spec") or {})}


def _pod_spec(spec: Manifest) -> dict[str, Any]:
    kept: dict[str, Any] = {name: spec[name] for name in POD_SPEC if spec.get(name) is not None}
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            kept[kind] = [{name: one[name] for name in CONTAINER if one.get(name) is not None} for one in spec[kind]]
    volumes = [one for one in spec.get("volumes") or () if one.get("persistentVolumeClaim") or one.get("ephemeral")]
    return {**kept, "volumes": volumes} if volumes else kept


def _pod_status(status: Manifest) -> dict[str, Any]:
    kept: dict[str, Any] = {name: status[name] for name in POD_STATUS if status.get(name)}
    for kind in ("containerStatuses", "initContainerStatuses"):
        given = [
            {name: one[name] for name in ("name", "resources", "allocatedResources") if one.get(name)}
            for one in status.get(kind) or ()
            if one.get("resources") or one.get("allocatedResources")
        ]
        if given:
            kept[kind] = given
    return kept


REDACTED: Final[Mapping[str, Callable[[Manifest], dict[str, Any]]]] = {
    "pods": _pod,
    "daemonsets": _daemon_set,
    "deployments": _workload,
    "statefulsets": _workload,
    "replicasets": _workload,
    "replicationcontrollers": _workload,
    "podtemplates": _pod_template,
    "services": _service,
    "nodes": _node,
}
"""The kept fields of a manifest outside its metadata; of kinds that are not listed here, all fields are kept."""
