"""Annotations without effect where they are: each has a warning that says where they belong, or what to write."""

from typing import Any

import pytest

from joiner.pools import read_manifests

UNKNOWN = "it has no effect: no such annotation is known"
LABEL = "it has no effect as a label: write it as an annotation"
TEMPLATE = "spec.template.metadata.annotations"
YES = "karpenter.sh/do-not-disrupt"


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
def test_a_claim_of_a_user_reports_its_annotations_and_one_of_a_scale_up_does_not(kind: str) -> None:
    annotations = {"joiner.dev/placing": "bind", YES: "yes", "joiner.dev/price-per-hour": "0.1"}

    labels = {"karpenter.sh/provisioner-name": "default"}

    assert warned(kind, {"annotations": annotations, "labels": labels})[:2] == [
        (
            "metadata.annotations[joiner.dev/placing]",
            "it has no effect here: it is an annotation of a pool or the template of a pool",
        ),
        (f"metadata.annotations[{YES}]", 'it has no effect; write "true"'),
    ]
    assert warned(kind, {"annotations": {**annotations, "joiner.dev/lease": "3"}, "labels": labels}) == []
