"""Annotations without effect where they are: each has a warning that says where they belong, or what to write."""

from typing import Any

import pytest

from joiner.pools import read_manifests
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.codecs.misplaced_annotations import note_node

UNKNOWN = "it has no effect: no such annotation is known"
LABEL = "it has no effect as a label: write it as an annotation"
TEMPLATE = "spec.template.metadata.annotations"
YES = "karpenter.sh/do-not-disrupt"
REF = {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"}}


def warned(kind: str, metadata: dict[str, Any], spec: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    """Return field and remedy of each warning about annotations and labels of an object."""
    manifest = {"kind": kind, "metadata": {"name": "default", **metadata}, "spec": spec or {}}
    problems = read_manifests([manifest]).problems
    own = [one for one in problems if one.object == f"{kind}/default" and "provisioner" not in one.field]
    found = [one for one in own if "annotations[" in one.field or "labels[" in one.field]
    assert {one.severity for one in found} <= {"warning"}
    return [(one.field, one.remedy) for one in found]


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("joiner.dev/placing", "schedule", ""),
        ("joiner.dev/placing", "scheduler", 'it has no effect; use bind or schedule; did you mean "schedule"?'),
        (
            "joiner.dev/burstble",
            "full",
            f'{UNKNOWN}; did you mean "joiner.dev/burstable"? It is an annotation of a pool',
        ),
        ("joiner.dev/drift", "detect", "it has no effect here: it is an annotation of a pool"),
        ("joiner.dev/schedule", "x", "it has no effect here: it is an annotation of a pool or a CapacityBuffer"),
        ("joiner.dev/qqqqqqqq", "x", f"{UNKNOWN}; docs/pool-annotations.md lists them"),
        (YES, "true", ""),
        (YES, "false", ""),
        (YES, "yes", 'it has no effect; write "true"'),
        (YES, "1h", 'it has no effect; write "true"'),
        ("karpenter.sh/do-not-evict", "true", "it has no effect on the template of a pool: remove it"),
        ("example.com/joiner", "x", ""),
    ],
)
@pytest.mark.parametrize("kind", ["NodePool", "Provisioner"])
def test_an_annotation_of_a_template_has_an_effect_or_a_warning(kind: str, key: str, value: str, remedy: str) -> None:
    template = {"annotations": {key: value}}
    legacy = kind == "Provisioner"
    found = warned(kind, {}, template if legacy else {"template": {"metadata": template}})

    field = f"{'spec.annotations' if legacy else TEMPLATE}[{key}]"
    assert found == ([(field, remedy)] if remedy else [])


@pytest.mark.parametrize("kind", ["EC2NodeClass", "AWSNodeTemplate"])
def test_a_class_has_no_annotations_of_joiner(kind: str) -> None:
    assert warned(kind, {"annotations": {"joiner.dev/drift": "detect", YES: "true", "team": "a"}}) == [
        ("metadata.annotations[joiner.dev/drift]", "it has no effect here: it is an annotation of a pool"),
        (f"metadata.annotations[{YES}]", "it has no effect on a node class: remove it"),
    ]


@pytest.mark.parametrize("kind", ["NodePool", "Provisioner"])
def test_protection_from_disruption_belongs_to_the_template_of_a_pool(kind: str) -> None:
    assert warned(kind, {"annotations": {YES: "true"}}) == [
        (f"metadata.annotations[{YES}]", "it has no effect on a pool: write it in the annotations of its template")
    ]


@pytest.mark.parametrize("kind", ["NodePool", "Provisioner", "EC2NodeClass", "AWSNodeTemplate"])
def test_an_annotation_that_is_written_as_a_label_is_reported(kind: str) -> None:
    labels = {"joiner.dev/drift": "detect", YES: "true", "team": "a"}

    assert warned(kind, {"labels": labels}) == [
        ("metadata.labels[joiner.dev/drift]", LABEL),
        (f"metadata.labels[{YES}]", LABEL),
    ]


@pytest.mark.parametrize("kind", ["NodeClaim", "Machine"])
def test_a_claim_of_a_user_reports_annotations_of_pools_and_one_of_a_scale_up_has_them_from_its_pool(kind: str) -> None:
    annotations = {"joiner.dev/placing": "bind", YES: "yes", "joiner.dev/price-per-hour": "0.1"}

    labels = {"karpenter.sh/provisioner-name": "default"}

    assert warned(kind, {"annotations": annotations, "labels": labels})[:2] == [
        (
            "metadata.annotations[joiner.dev/placing]",
            "it has no effect here: it is an annotation of a pool or the template of a pool",
        ),
        (f"metadata.annotations[{YES}]", 'it has no effect; write "true"'),
    ]
    of_a_scale_up = {**annotations, YES: "true", "joiner.dev/lease": "3"}
    assert warned(kind, {"annotations": of_a_scale_up, "labels": labels}) == []


DEADLINE = "karpenter.sh/nodeclaim-termination-timestamp"


@pytest.mark.parametrize("kind", ["NodeClaim", "Machine"])
def test_what_was_added_to_a_claim_of_a_scale_up_is_reported_and_what_its_template_has_is_not(kind: str) -> None:
    legacy = kind == "Machine"
    template = {"annotations": {YES: "yes"}}
    spec = {**template, "providerRef": {"name": "a"}} if legacy else {"template": {"metadata": template, "spec": REF}}
    pool = {"kind": "Provisioner" if legacy else "NodePool", "metadata": {"name": "default"}, "spec": spec}
    label = "karpenter.sh/provisioner-name" if legacy else "karpenter.sh/nodepool"

    def reported(**annotations: str) -> list[tuple[str, str]]:
        own = {"joiner.dev/lease": "3", "joiner.dev/placing": "bind", **annotations}
        metadata = {"name": "default-1", "labels": {label: "default"}, "annotations": own}
        problems = read_manifests([pool, {"kind": kind, "metadata": metadata, "spec": {}}]).problems
        return [(one.field, one.remedy) for one in problems if one.object == f"{kind}/default-1"]

    assert reported() == reported(**{YES: "yes"}) == reported(**{DEADLINE: "2026-11-21T12:00:00Z"}) == []
    assert reported(**{YES: "maybe", DEADLINE: "soon", "joiner.dev/drian": "rollout"}) == [
        (
            "metadata.annotations[joiner.dev/drian]",
            f'{UNKNOWN}; did you mean "joiner.dev/drain"? It is an annotation of a pod',
        ),
        (f"metadata.annotations[{YES}]", 'it has no effect; write "true"'),
        (f"metadata.annotations[{DEADLINE}]", 'it has no effect; write a time such as "2026-11-21T12:00:00Z"'),
    ]


OURS = {"karpenter.sh/nodepool": "web", "joiner.dev/shard": "3", "karpenter.sh/do-not-sync-taints": "true"}
COPIED = {"joiner.dev/launch": "x", "joiner.dev/price-per-hour": "0.1", "joiner.dev/placing": "bind"}


def of_node(annotations: dict[str, str], labels: dict[str, str]) -> list[tuple[str, str]]:
    notes = ManifestProblems("Node/web-1")
    note_node(annotations, labels, notes)
    assert {one.severity for one in notes.problems} <= {"warning"}
    return [(one.field, one.remedy) for one in notes.problems]


@pytest.mark.parametrize("key", [YES, "karpenter.sh/do-not-consolidate"])
@pytest.mark.parametrize(
    ("value", "effective"),
    [("true", True), ("false", True), ("yes", False), ("maybe", False), ("True", False), ("", False), ("1h", False)],
)
def test_protection_on_a_node_has_an_effect_or_a_warning(key: str, value: str, effective: bool) -> None:
    warning = [(f"metadata.annotations[{key}]", 'it has no effect; write "true"')]

    assert of_node({**COPIED, key: value}, OURS) == ([] if effective else warning)


def test_annotations_and_labels_of_a_node_that_nothing_reads_are_reported() -> None:
    annotations = {"joiner.dev/drain": "rollout", "karpenter.sh/do-not-evict": "true", "team": "a"}
    labels = {**OURS, YES: "true", "karpenter.sh/do-not-sync-taints": "yes"}

    assert of_node(annotations, labels) == [
        ("metadata.annotations[joiner.dev/drain]", "it has no effect here: it is an annotation of a pod"),
        ("metadata.annotations[karpenter.sh/do-not-evict]", "it has no effect on a node: remove it"),
        (f"metadata.labels[{YES}]", LABEL),
        ("metadata.labels[karpenter.sh/do-not-sync-taints]", 'it has no effect; write "true"'),
    ]


def test_nothing_on_a_node_of_others_is_reported() -> None:
    assert of_node({YES: "yes", "joiner.dev/drain": "x"}, {"eks.amazonaws.com/nodegroup": "a", YES: "true"}) == []
