"""Reads manifests as `joiner plan` does."""

import json
from pathlib import Path
from typing import Any

from joiner_cli.manifests import ManifestSet, read_manifest_set
from joiner_cli.manifests.manifest_documents import read_text

GOOD = Path(__file__).parent / "manifests"
"""A folder with valid manifests."""


def read_objects(*manifests: Any) -> ManifestSet:
    return read_manifest_set(one for manifest in manifests for one in read_text(json.dumps(manifest), "file.json"))


def refusals(*manifests: Any) -> list[str]:
    return [str(problem) for problem in read_objects(*manifests).errors]


def of_yaml(text: str) -> ManifestSet:
    return read_manifest_set(read_text(text, "file.yaml"))


def all_lists(found: ManifestSet) -> dict[str, list[Any]]:
    """Return every object as a manifest, with the pods that the controllers would create."""
    lists: dict[str, list[Any]] = {plural: list(items) for plural, items in found.lists.items()}
    lists.setdefault("pods", []).extend(pod for one in found.replicas for pod in one.manifests())
    return lists
