"""Fills in what admission in an EKS cluster fills in: limits, tolerations, the default storage class, and the address
that pods for Windows request.

The snapshot resolves PriorityClasses and RuntimeClasses itself. Applying these defaults twice changes nothing.
Sources: Kubernetes, "Admission Control" (LimitRanger, DefaultTolerationSeconds, DefaultStorageClass); Amazon EKS user
guide, "Deploy Windows nodes on EKS clusters" (the webhook of the VPC resource controller).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from joiner import names
from joiner.catalogue.family_capacity import PRIVATE_ADDRESS
from joiner.cluster.persistent_volumes import DEFAULT_CLASS_ANNOTATIONS
from joiner.planning.inputs.admission import Admission
from joiner.pools import InvalidManifest

Manifest = Mapping[str, Any]

WINDOWS: Final = "windows"
TOLERATED_SECONDS: Final = 300
TOLERATED_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True, slots=True)
class AdmissionDefaults:
    """Limits by namespace, the priority classes, names of the existing runtime classes, the default storage class, and
    broken objects.
    """

    limits: Mapping[str, Sequence[Manifest]] = field(default_factory=dict)
    classes: Admission = field(default_factory=lambda: Admission({}))
    runtimes: frozenset[str] = frozenset()
    storage_class: str = ""
    broken: frozenset[str] = frozenset()

    @classmethod
    def of(cls, by_kind: Mapping[str, Sequence[Manifest]], broken: frozenset[str] = frozenset()) -> "AdmissionDefaults":
        """Read the defaults from manifests by kind; ``broken`` names invalid objects as ``Kind/name``."""
        limits: dict[str, list[Manifest]] = {}
        for one in by_kind.get("LimitRange", ()):
            limits.setdefault(_namespace(one), []).extend(
                item for item in (one.get("spec") or {}).get("limits") or () if item.get("type") == "Container"
            )
        defaults = sorted(
            (one["metadata"].get("creationTimestamp") or "", one["metadata"]["name"])
            for one in by_kind.get("StorageClass", ())
            if any((one["metadata"].get("annotations") or {}).get(key) == "true" for key in DEFAULT_CLASS_ANNOTATIONS)
        )
        return cls(
            limits=limits,
            classes=Admission({"priorityclasses": by_kind.get("PriorityClass", ())}),
            runtimes=frozenset(one["metadata"]["name"] for one in by_kind.get("RuntimeClass", ())),
            storage_class=defaults[-1][1] if defaults else "",
            broken=broken,
        )

    def pod(self, manifest: Manifest) -> dict[str, Any]:
        """Return the pod with its namespace's limits and the default tolerations."""
        spec = dict(manifest["spec"])
        if runs_windows(spec):
            _request_address(spec)
        self._limit(spec, _namespace(manifest))
        _tolerate(spec)
        return {**manifest, "spec": spec}

    def claim(self, manifest: Manifest) -> Manifest:
        """Return the PersistentVolumeClaim with the default storage class, unless it sets one; an empty class means
        none.
        """
        spec = manifest.get("spec") or {}
        if spec.get("storageClassName") is not None or not self.storage_class:
            return manifest
        return {**manifest, "spec": {**spec, "storageClassName": self.storage_class}}

    def missing(self, subject: str, path: str, spec: Manifest) -> Iterable[InvalidManifest]:
        """Yield a warning for each missing class that a pod names: the API server would refuse the pod."""
        name = spec.get("priorityClassName")
        if name and self.classes.priority(spec) is None and spec.get("priority") is None:
            remedy = f"{self._lacking('PriorityClass', name)}; the plan counts it as 0"
            yield InvalidManifest(subject, f"{path}.priorityClassName", name, remedy, "warning")
        if path != "spec" and (remedy := self.refused_priority(spec)):
            remedy = f"{remedy}; the cluster creates no pod of it"
            yield InvalidManifest(subject, f"{path}.priority", str(spec["priority"]), remedy, "warning")
        runtime = spec.get("runtimeClassName")
        if runtime and runtime not in self.runtimes and not spec.get("overhead"):
            remedy = f"{self._lacking('RuntimeClass', runtime)}; the plan counts no overhead"
            yield InvalidManifest(subject, f"{path}.runtimeClassName", runtime, remedy, "warning")

    def refused_priority(self, spec: Manifest) -> str:
        """Return why the API server refuses the number in `priority` of a new pod, or an empty text: it must be that of
        the pod's class."""
        given, name = spec.get("priority"), spec.get("priorityClassName")
        due = self.classes.priority(spec)
        if given is None or due is None or given == due:
            return ""
        if name:
            return f"the PriorityClass {name} gives {due}: remove the number"
        return f"without priorityClassName it is {due}: name a PriorityClass instead of the number"

    def _lacking(self, kind: str, name: str) -> str:
        broken = f"{kind}/{name}" in self.broken
        return f"this {kind} is invalid" if broken else f"there is no such {kind} among the manifests"

    def _limit(self, spec: dict[str, Any], namespace: str) -> None:
        limits: dict[str, Any] = {}
        requests: dict[str, Any] = {}
        for item in self.limits.get(namespace, ()):
            given = {**(item.get("max") or {}), **(item.get("default") or {})}
            limits = {**given, **limits}
            requests = {**(item.get("min") or {}), **given, **(item.get("defaultRequest") or {}), **requests}
        if not (limits or requests):
            return
        for kind in ("containers", "initContainers"):
            if spec.get(kind):
                spec[kind] = [_with_defaults(one, limits, requests) for one in spec[kind]]


def runs_windows(spec: Manifest) -> bool:
    """Return whether a pod requires Windows by a selector or an affinity, as EKS's webhook for Windows reads it."""
    if (spec.get("nodeSelector") or {}).get(names.OS) == WINDOWS:
        return True
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    rules = [rule for term in terms for rule in term.get("matchExpressions") or ()]
    return any(
        rule.get("key") == names.OS and rule.get("operator") == "In" and rule.get("values") == [WINDOWS]
        for rule in rules
    )


def _request_address(spec: dict[str, Any]) -> None:
    """Let the first container request the address that each pod of a Windows node needs, unless one requests it."""
    containers = spec.get("containers") or ()
    if spec.get("hostNetwork") or not containers or any(PRIVATE_ADDRESS in _limits(one) for one in containers):
        return
    first, address = containers[0], {PRIVATE_ADDRESS: "1"}
    resources = first.get("resources") or {}
    more = {side: {**(resources.get(side) or {}), **address} for side in ("limits", "requests")}
    spec["containers"] = [{**first, "resources": {**resources, **more}}, *containers[1:]]


def _limits(container: Manifest) -> Manifest:
    return (container.get("resources") or {}).get("limits") or {}


def _with_defaults(container: Manifest, limits: Manifest, requests: Manifest) -> Manifest:
    """Add missing limits and requests; a missing request is the container's own limit before it is the default."""
    own_resources = container.get("resources") or {}
    own = {**(own_resources.get("limits") or {}), **(own_resources.get("requests") or {})}
    resources = {
        **own_resources,
        "limits": {**limits, **(own_resources.get("limits") or {})},
        "requests": {**requests, **own},
    }
    return {**container, "resources": resources}


def _tolerate(spec: dict[str, Any]) -> None:
    tolerations = spec.get("tolerations") or ()
    more = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS}
        for key in TOLERATED_TAINTS
        if not any(
            one.get("key") in (key, None, "") and one.get("effect") in ("NoExecute", None, "") for one in tolerations
        )
    ]
    if more:
        spec["tolerations"] = [*tolerations, *more]


def _namespace(manifest: Manifest) -> str:
    return (manifest.get("metadata") or {}).get("namespace") or "default"
