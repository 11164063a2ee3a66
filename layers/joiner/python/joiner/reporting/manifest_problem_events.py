"""Events about the problems of claims, and of the annotations of nodes and pods, which have no condition for them.

NodeOverlays and CapacityBuffers have conditions, which the next plan writes; their events are also written without a
plan.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from joiner import names
from joiner.cluster import Node, Pod
from joiner.disruption.disruption_candidates import workload_of
from joiner.planning import Snapshot
from joiner.pools import InvalidManifest
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.codecs.misplaced_annotations import (
    MOST_OF_A_POOL,
    POD,
    PROTECTIONS,
    note_annotations,
    note_labels,
    note_node,
)
from joiner.pools.node_pool import pool_key_of
from joiner.reporting.events import Event, Subject
from joiner.reporting.plan_events import report_invalid_manifests

REPORTED: Final[Mapping[str, tuple[str, str]]] = {
    "nodeclaims": ("NodeClaim", "karpenter.sh/v1"),
    "machines": ("Machine", "karpenter.sh/v1alpha5"),
    "nodeoverlays": ("NodeOverlay", "karpenter.sh/v1alpha1"),
    "capacitybuffers": ("CapacityBuffer", "autoscaling.x-k8s.io/v1beta1"),
}
"""Plural name of a list -> kind and API version of its items."""


def report_problems(snapshot: Snapshot, lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Event]:
    """Return the events about the problems of a snapshot and of the lists that it was made from."""
    of_nodes = report_nodes(snapshot.nodes)
    return [*report_objects(lists, snapshot.problems), *report_pods(snapshot.pods), *of_nodes]


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


def report_pods(pods: Iterable[Pod]) -> list[Event]:
    """Return the events about annotations and labels of pods without effect: one for each mistake of a workload, on its
    first pod. What should keep a pod from disruption, and does not, is reported with the disruptions."""
    found: dict[tuple[str, str], Event] = {}
    for pod in sorted(
        (each for each in pods if each.claimed or _meant_as_annotations(each)), key=lambda each: each.key
    ):
        notes = ManifestProblems(f"Pod/{pod.key}")
        note_annotations(pod.claimed, notes, "metadata.annotations", POD)
        note_labels(_meant_as_annotations(pod), notes, "metadata.labels")
        events = report_invalid_manifests(Subject.pod(pod), notes.problems)
        for problem, event in zip(notes.problems, events, strict=True):
            found.setdefault((workload_of(pod), problem.field), event)
    return list(found.values())


def report_nodes(nodes: Iterable[Node]) -> list[Event]:
    """Return the events about annotations and labels of nodes without effect; of each mistake, the first nodes of a
    pool have one."""
    found, known = list[Event](), Counter[tuple[str, str]]()
    for node in sorted(nodes, key=lambda each: each.name):
        notes = ManifestProblems(f"Node/{node.name}")
        note_node(node.annotations, node.labels, notes)
        events = report_invalid_manifests(Subject.node(node), notes.problems)
        for problem, event in zip(notes.problems, events, strict=True):
            mistake = (pool_key_of(node) or node.name, problem.message)
            known[mistake] += 1
            found += [event] if known[mistake] <= MOST_OF_A_POOL else []
    return found


def _meant_as_annotations(pod: Pod) -> Mapping[str, str]:
    return {key: value for key, value in pod.labels.items() if key.startswith(names.PREFIX) or key in PROTECTIONS}
