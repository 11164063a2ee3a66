"""The labels and taints with which a kubelet registers its node, parsed as strictly as by a kubelet.

Source: the kubelet's flags `--node-labels` and `--register-with-taints` (Kubernetes, "kubelet" reference) and its check
of labels in the `kubernetes.io` and `k8s.io` domains: with others a kubelet exits at once.

>>> read_flags(['--node-labels="team=a,zone=b"', "--max-pods=20"]).labels
{'team': 'a', 'zone': 'b'}
>>> read_flags(["--node-labels=kubernetes.io/team=a"])  # doctest: +ELLIPSIS
Traceback (most recent call last):
joiner_local.node_agent.node_registration.Unbootable: unknown 'kubernetes.io' or 'k8s.io' labels specified...
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
KUBELET_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
    }
)
KUBELET_PREFIXES: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")

Taint = Mapping[str, str]


class Unbootable(Exception):
    """An instance with this user data never becomes a node; the message is for the log."""


@dataclass(frozen=True, slots=True)
class Registration:
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


def read_flags(flags: Iterable[str]) -> Registration:
    """Return labels and taints from kubelet flags (`--name=value`, each perhaps quoted as in a shell); other flags are
    ignored.
    """
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    for flag in flags:
        name, value = _split(flag)
        if name == "--node-labels":
            labels |= read_labels(value)
        elif name == "--register-with-taints":
            taints = tuple(_taint_from_flag(text) for text in value.split(",") if text)
    return Registration(labels, taints)


def _split(flag: str) -> tuple[str, str]:
    try:
        words = shlex.split(flag)
    except ValueError as error:
        raise Unbootable(f"the kubelet flag {flag!r} is quoted wrongly: {error}") from error
    name, _, value = " ".join(words).partition("=")
    if not name.startswith("--"):
        raise Unbootable(f"{flag!r} is no kubelet flag")
    return name, value


def read_labels(text: str) -> dict[str, str]:
    labels = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = pair.partition("=")
        if not equals or not is_qualified_name(key) or not is_label_value(value):
            raise Unbootable(f"--node-labels: {pair!r} is no label")
        labels[key] = value
    if strange := [key for key in labels if not _may_register(key)]:
        raise Unbootable(
            f"unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: {', '.join(strange)}"
        )
    return labels


def is_qualified_name(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return bool(NAME.fullmatch(name)) and (not slash or (len(prefix) <= 253 and bool(PREFIX.fullmatch(prefix))))


def is_label_value(value: str) -> bool:
    return value == "" or bool(NAME.fullmatch(value))


def _may_register(key: str) -> bool:
    domain = key.rpartition("/")[0]
    if not any(domain == reserved or domain.endswith(f".{reserved}") for reserved in ("kubernetes.io", "k8s.io")):
        return True
    return key in KUBELET_LABELS or any(
        domain == prefix or domain.endswith(f".{prefix}") for prefix in KUBELET_PREFIXES
    )


def _taint_from_flag(text: str) -> Taint:
    pair, _, effect = text.partition(":")
    key, _, value = pair.partition("=")
    return _checked({"key": key, "value": value, "effect": effect})


def read_taints(output: Sequence[Any]) -> tuple[Taint, ...]:
    """Parse `registerWithTaints` of a KubeletConfiguration."""
    if not isinstance(output, list) or not all(isinstance(taint, dict) for taint in output):
        raise Unbootable("registerWithTaints is not a list of taints")
    return tuple(_checked(taint) for taint in output)


def _checked(taint: Mapping[str, Any]) -> Taint:
    key, value, effect = (str(taint.get(name) or "") for name in ("key", "value", "effect"))
    if not is_qualified_name(key) or not is_label_value(value) or effect not in EFFECTS:
        raise Unbootable(f"{key}={value}:{effect} is no taint")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})
