"""The fields of the CRDs that a deployment installs."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

CRDS: Final = Path(__file__).parents[1] / "manifests" / "crds"
IDENTITY: Final = frozenset({"apiVersion", "kind", "metadata"})
"""Fields of every object, which Kubernetes defines."""


@cache
def read_crds() -> Sequence[Mapping[str, Any]]:
    """Return the CRDs that a deployment installs, in the order of their files."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # reads ten times as fast, if PyYAML has it
    # both loaders are safe
    return [yaml.load(path.read_text(encoding="utf-8"), loader) for path in sorted(CRDS.glob("*.yaml"))]  # noqa: S506


def crd_fields() -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the schema of each field without fields of its own, by kind and path; ``[]`` marks items of a list."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for crd in read_crds():
        spec = crd["spec"]
        for version in spec["versions"]:
            fields = found.setdefault(spec["names"]["kind"], {})
            for name, part in version["schema"]["openAPIV3Schema"]["properties"].items():
                if name not in IDENTITY:
                    fields.update(_leaves(part, name))
    return found


def _leaves(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if "properties" in schema:
        for name, part in schema["properties"].items():
            yield from _leaves(part, f"{path}.{name}")
    elif schema.get("type") == "array":
        yield from _leaves(schema["items"], f"{path}[]")
    else:
        yield path, schema
