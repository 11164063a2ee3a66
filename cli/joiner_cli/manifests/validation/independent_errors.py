"""What else is certainly wrong with a manifest whose shape is wrong already: told in one go with it, and never a guess.

A field that nobody can read (a misspelt one, a list where a map belongs) is a doubt. The checks of values run all the same, over what was
understood, and of what they find only that is told which no doubt can have caused: what stands beside it in the same object, or in a part
of the manifest that the check compares with it, is not.

>>> certain("spec.template.spec.tolerations[0].operator", ["spec.replicaz"], pod="spec.template.spec")
True
>>> certain("spec.template.metadata.labels", ["spec.selektor"], pod="spec.template.spec")
False
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from joiner.pools import InvalidManifest

INDEPENDENT_FIELDS: Final = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
"""Fields of a pod that are checked without a look at the rest of it."""

CONTAINERS: Final = ("containers", "initContainers")

POD_SPEC_PATHS: Final[Mapping[str, str]] = {"v1/Pod": "spec", "v1/PodTemplate": "template.spec"}
"""Where the spec of a pod stands; in all workloads at the same place."""

DEPENDS_ON: Final[Mapping[str, str]] = {"spec.amiFamily": "spec.amiSelectorTerms"}
"""Fields of Karpenter's kinds that may be left out because of what another one says."""


def pod_spec_path(kind: str) -> str:
    return POD_SPEC_PATHS.get(kind, "spec.template.spec")


def is_independent(field: str, doubts: Iterable[str], *, pod: str) -> bool:
    """Whether the check of this field looks at nothing that is in doubt; ``pod`` is where the manifest has its pod."""
    parts = _parts_read(field, pod)
    if not parts:  # all but the metadata, which has checks of its own
        return all(_within(one, "metadata") for one in doubts)
    return not any(_within(one, part) for one in doubts for part in parts)


def may_be_consequence(problem: InvalidManifest, told: Iterable[InvalidManifest], doubts: Iterable[str]) -> bool:
    """Whether the problem may be one that was told already in other words, or what follows from a field in doubt right beside it."""
    field = _plain(problem.field)
    near = [_plain(one.field) for one in told]
    doubtful = [_plain(one) for one in doubts]
    beside = {one.rpartition(".")[0] for one in doubtful}
    follows = DEPENDS_ON.get(problem.field, "")
    return (
        any(_within(field, one) or _within(one, field) for one in near)
        or field.rpartition(".")[0] in beside
        or bool(follows and any(_within(one, follows) for one in doubtful))
    )


def _parts_read(field: str, pod: str) -> tuple[str, ...]:
    """The smallest parts of the manifest that the check of this field reads; none for the whole of it."""
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
    """The field with its keys and positions written like names: readers of different kinds write them differently.

    >>> _plain("spec.limits[cpu]"), _plain("spec.taints[0].key")
    ('spec.limits.cpu', 'spec.taints.0.key')
    """
    return re.sub(r"\[(.*?)\]", r".\1", field)
