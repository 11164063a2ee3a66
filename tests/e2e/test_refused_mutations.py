"""The `joiner` command refuses what the API server refuses: both read the same mutations of valid manifests.

The API server is asked with ``dryRun=All`` and strict field validation. ``JOINER_MUTATIONS`` is the number of
mutations.
"""

import copy
import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from joiner_cli.manifests import ManifestDocument, read_manifest_set
from joiner_local.control_plane.kube_api import ApiError, KubeApi
from joiner_local.packaged_data import kube_schemas
from tests.unit.cli import mutations

pytestmark = pytest.mark.e2e

NUMBER = int(os.environ.get("JOINER_MUTATIONS", "300"))
FIRST = int(os.environ.get("JOINER_MUTATIONS_FROM", "0"))
CRDS = Path(__file__).parents[2] / "manifests" / "crds"
STORED = ("PriorityClass", "RuntimeClass")  # which admission wants to find
CHANGES = [change for change in mutations.CHANGES if change is not mutations.lose_document]
MORE_LENIENT = ("image",)  # a plan needs no image: we only mention it
STRICTER = 0.02
"""Our own readers of pools say earlier what the API server stores and a controller would refuse; and slips of its
validation.
"""


@dataclass(frozen=True)
class Server:
    kube: KubeApi
    paths: dict[str, str]

    def refusal(self, manifest: dict[str, Any], like: dict[str, Any]) -> str:
        """Return the API server's error; empty if it would store the manifest."""
        path = self.paths[f"{like['apiVersion']}/{like['kind']}"].format(like["metadata"].get("namespace", "default"))
        try:
            self.kube.create(f"{path}?dryRun=All&fieldValidation=Strict", manifest)
        except ApiError as error:
            return (
                "" if error.reason == "AlreadyExists" else str(error)
            )  # a name that is taken is no mistake in the manifest
        return ""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with kube_schemas.api_server("--disable-admission-plugins=ServiceAccount") as kube:
        kube.apply_manifests(
            [yaml.safe_load(path.read_text()) for path in sorted(CRDS.glob("*.yaml"))], manager="joiner"
        )
        paths = {}
        for one in mutations.good():
            paths[f"{one['apiVersion']}/{one['kind']}"] = _path(kube, one["apiVersion"], one["kind"])
        for name in ("default", "kube-system", "shop"):
            _create(kube, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for one in mutations.good():
            if one["kind"] in STORED:
                _create(kube, paths[f"{one['apiVersion']}/{one['kind']}"], one)
        yield Server(kube, paths)


def _path(kube: KubeApi, version: str, kind: str) -> str:
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    deadline = time.monotonic() + 30
    while True:
        listed = kube.find(prefix) or {"resources": []}
        found = next((one for one in listed["resources"] if one["kind"] == kind and "/" not in one["name"]), None)
        path = f"{prefix}{'/namespaces/{}' if found and found['namespaced'] else ''}/{found['name']}" if found else ""
        if found and (found["namespaced"] or kube.find(path) is not None):
            return path
        assert time.monotonic() < deadline, f"{prefix} does not serve {kind}"
        time.sleep(0.2)


def _create(kube: KubeApi, path: str, manifest: dict[str, Any]) -> None:
    try:
        kube.create(path, manifest)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


def renamed(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest under a free name, where the valid one is stored."""
    if manifest["kind"] not in (*STORED, "Namespace"):
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "name": f"other-{manifest['metadata']['name']}"}}


def ours(manifest: Any) -> list[str]:
    return [
        str(error) for error in read_manifest_set([ManifestDocument("file", json.loads(json.dumps(manifest)))]).errors
    ]


def test_both_accept_valid_manifests(server: Server) -> None:
    for one in map(renamed, mutations.good()):
        assert (server.refusal(one, one), ours(one)) == ("", [])


def test_both_refuse_the_same_mutations(server: Server) -> None:
    good = list(map(renamed, mutations.good()))
    laxer, stricter, asked = [], [], 0
    for seed in range(FIRST, FIRST + NUMBER):
        chance = random.Random(seed)  # noqa: S311 - not for secrets
        before = chance.choice(good)
        world = [copy.deepcopy(before)]
        chance.choice(CHANGES)(chance, world)
        manifest = world[0]
        if manifest == before or not _comparable(manifest, before):
            continue
        asked += 1
        theirs, mine = server.refusal(manifest, before), ours(manifest)
        if theirs and not mine and not any(field in theirs for field in MORE_LENIENT):
            laxer.append(f"seed {seed}: {theirs}")
        if mine and not theirs:
            stricter.append(f"seed {seed}: {mine}")

    assert asked > NUMBER / 3
    assert not laxer, "\n".join(laxer)
    assert len(stricter) <= STRICTER * asked, stricter


def _comparable(manifest: Any, before: dict[str, Any]) -> bool:
    """Return whether a request is possible: its path needs a valid version, kind and namespace."""
    if not isinstance(manifest, dict) or any(manifest.get(key) != before[key] for key in ("apiVersion", "kind")):
        return False
    metadata = manifest.get("metadata")
    return not isinstance(metadata, dict) or metadata.get("namespace") == before["metadata"].get("namespace")
