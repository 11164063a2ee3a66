"""Selects the problems of a manifest that do not depend on its schema errors, so that all can be reported at once.

A field that could not be parsed (a misspelled one, a list instead of a map) is a doubt. The checks of values run over
the fields that were parsed. A problem that they find is reported only if no doubt can have caused it: not if the check
reads a part of the manifest that holds a doubt.

>>> is_independent("spec.template.spec.tolerations[0].operator", ["spec.replicaz"], pod="spec.template.spec")
True
>>> is_independent("spec.template.metadata.labels", ["spec.selektor"], pod="spec.template.spec")
False
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from joiner.pools import InvalidManifest

INDEPENDENT_FIELDS: Final = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
"""Fields of a pod whose checks read no other field."""

CONTAINERS: Final = ("containers", "initContainers")

POD_SPEC_PATHS: Final[Mapping[str, str]] = {"v1/Pod": "spec", "v1/PodTemplate": "template.spec"}
"""The path of the pod spec in kinds other than workloads."""

DEPENDS_ON: Final[Mapping[str, str]] = {"spec.amiFamily": "spec.amiSelectorTerms"}
"""Fields of Karpenter's kinds that are optional if another field is set."""


def pod_spec_path(kind: str) -> str:
    """Return the path of the pod spec in a manifest of this kind."""
    return POD_SPEC_PATHS.get(kind, "spec.template.spec")


def is_independent(field: str, doubts: Iterable[str], *, pod: str) -> bool:
    """Return whether the check of this field reads no field in doubt; ``pod`` is the path of the pod spec."""
    parts = _parts_read(field, pod)
    if not parts:  # the check reads everything except the metadata
        return all(_within(one, "metadata") for one in doubts)
    return not any(_within(one, part) for one in doubts for part in parts)


def may_be_consequence(problem: InvalidManifest, reported: Iterable[InvalidManifest], doubts: Iterable[str]) -> bool:
    """Return whether the problem may repeat a reported one, or follow from a field in doubt in the same object."""
    field = _plain(problem.field)
    near = [_plain(one.field) for one in reported]
    doubtful = [_plain(one) for one in doubts]
    beside = {one.rpartition(".")[0] for one in doubtful}
    follows = DEPENDS_ON.get(problem.field, "")
    return (
        any(_within(field, one) or _within(one, field) for one in near)
        or field.rpartition(".")[0] in beside
        or bool(follows and any(_within(one, follows) for one in doubtful))
    )


def _parts_read(field: str, pod: str) -> tuple[str, ...]:
    """Return the parts of the manifest that the check of this field reads; an empty tuple means all of it."""
    if _within(field, "metadata"):
        return ("metadata",)
    for name in INDEPENDENT_FIELDS:
        if _within(field, f"{pod}.{name}"):
            return (f"{pod}.{name}",)
    if any(_within(field, f"{pod}.{name}") for name in CONTAINERS) and ".volumeMounts[" not in field:
        return tuple(f"{pod}.{name}" for name in CONTAINERS)
    return (pod,) if _within(field, pod) else ()


def _within(field: str, part: str) -> bool:
    return field == part or field.startswith((f"{part}.", f"{part}["))


def _plain(field: str) -> str:
    """Return the field with keys and indexes written as names: the readers of different kinds write them differently.

    >>> _plain("spec.limits[cpu]"), _plain("spec.taints[0].key")
    ('spec.limits.cpu', 'spec.taints.0.key')
    """
    return re.sub(r"\[(.*?)\]", r".\1", field)
