"""Events about the problems of claims that a person wrote, which have no condition for them, and of NodeOverlays and
CapacityBuffers. The latter have conditions, which the next plan writes; their events are also written without a plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from joiner.pools import InvalidManifest
from joiner.reporting.events import Event, Subject
from joiner.reporting.plan_events import report_invalid_manifests

REPORTED: Final[Mapping[str, tuple[str, str]]] = {
    "nodeclaims": ("NodeClaim", "karpenter.sh/v1"),
    "machines": ("Machine", "karpenter.sh/v1alpha5"),
    "nodeoverlays": ("NodeOverlay", "karpenter.sh/v1alpha1"),
    "capacitybuffers": ("CapacityBuffer", "autoscaling.x-k8s.io/v1beta1"),
}
"""Plural name of a list -> kind and API version of its items."""


def report_objects(
    lists: Mapping[str, Sequence[Mapping[str, Any]]], problems: Iterable[InvalidManifest]
) -> list[Event]:
    """Return one event for each problem of these objects."""
    own: dict[str, list[InvalidManifest]] = {}
    for problem in problems:
        own.setdefault(problem.object, []).append(problem)
    found: list[Event] = []
    for plural, (kind, version) in REPORTED.items():
        for manifest in lists.get(plural) or ():
            metadata = manifest["metadata"]
            name, namespace = str(metadata["name"]), str(metadata.get("namespace") or "")
            subject = Subject(version, kind, name, str(metadata.get("uid") or ""), namespace)
            found += report_invalid_manifests(subject, own.get("/".join(filter(None, (kind, namespace, name))), ()))
    return found
