"""`python -m joiner_local.packaged_data.kube_schemas`: write the schemas by which the `joiner` command reads manifests.

Schemas of built-in kinds are what the API server of this checkout publishes (OpenAPI v3); those of our kinds are the
CRDs in ``manifests/crds``. Descriptions are left out, and of Kubernetes' kinds only those are kept that a plan uses.
"""

import contextlib
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import urllib3
import yaml

from joiner_local.control_plane import control_plane_binaries
from joiner_local.control_plane.kube_api import ApiError, KubeApi
from joiner_local.control_plane.kubernetes_control_plane import ControlPlane
from joiner_local.packaged_data.catalogue_facts import packed
from joiner_local.stack.stack_processes import Programs

REPOSITORY: Final = Path(__file__).parents[3]
DATA: Final = REPOSITORY / "cli" / "joiner_cli" / "data"
BUILT_IN, OURS = DATA / "kubernetes.json.gz", DATA / "karpenter.json.gz"
CRDS: Final = REPOSITORY / "manifests" / "crds"

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "v1": (
        "LimitRange",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodTemplate",
        "ReplicationController",
        "Service",
    ),
    "apps/v1": ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"),
    "batch/v1": ("Job", "CronJob"),
    "policy/v1": ("PodDisruptionBudget",),
    "scheduling.k8s.io/v1": ("PriorityClass",),
    "storage.k8s.io/v1": ("StorageClass", "CSINode", "CSIDriver"),
    "node.k8s.io/v1": ("RuntimeClass",),
}
"""API version -> the kinds of it that plans are made from."""

NOT_READ: Final = frozenset(
    {"description", "title", "externalDocs", "x-kubernetes-validations", "x-kubernetes-group-version-kind"}
)
Schema = dict[str, Any]


def of_api_server(kube: KubeApi) -> Schema:
    """Return the built-in kinds: the kinds of each version, and the schemas of those that a plan uses."""
    types: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    others: dict[str, list[str]] = {}
    namespaced: list[str] = []
    for version, wanted in KINDS.items():
        prefix = f"apis/{version}" if "/" in version else f"api/{version}"
        listed = {
            one["kind"]: one["namespaced"] for one in kube.get(f"/{prefix}")["resources"] if "/" not in one["name"]
        }
        others[version] = sorted(listed.keys() - set(wanted))
        namespaced += [f"{version}/{kind}" for kind in wanted if listed[kind]]
        schemas = kube.get(f"/openapi/v3/{prefix}")["components"]["schemas"]
        for kind in wanted:
            kinds[f"{version}/{kind}"] = _own(schemas, version, kind)
            _collect(schemas, kinds[f"{version}/{kind}"], types)
    release = kube.get("/version")["gitVersion"]
    return {"release": release, "kinds": kinds, "others": others, "namespaced": sorted(namespaced), "types": types}


def of_crds() -> Schema:
    """Return our kinds, from their CRDs."""
    types: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    namespaced: list[str] = []
    for path in sorted(CRDS.glob("*.yaml")):
        for crd in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            spec = crd["spec"]
            for version in spec["versions"]:
                name = f"{spec['group']}/{version['name']}/{spec['names']['kind']}"
                kinds[name] = name
                types[name] = _bare(version["schema"]["openAPIV3Schema"])
                namespaced += [name] if spec["scope"] == "Namespaced" else []
    return {"kinds": kinds, "namespaced": namespaced, "types": types}


def _own(schemas: Mapping[str, Any], version: str, kind: str) -> str:
    group, _, short = version.rpartition("/")
    wanted = {"group": group, "version": short, "kind": kind}
    return next(name for name, one in schemas.items() if wanted in one.get("x-kubernetes-group-version-kind", ()))


def _collect(schemas: Mapping[str, Any], name: str, into: dict[str, Any]) -> None:
    """Return this schema and every schema that it refers to."""
    if name in into:
        return
    into[name] = _bare(schemas[name])
    for referred in _references(into[name]):
        _collect(schemas, referred, into)


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"]
        for one in schema.values():
            yield from _references(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from _references(one)


def _bare(schema: Schema) -> Schema:
    """Return the schema without documentation, with references by name and without empty defaults."""
    kept: Schema = {}
    for name, text in schema.items():
        if name in NOT_READ or (name == "default" and text in ({}, "", 0)):
            continue
        if name == "properties":
            kept[name] = {key: _bare(one) for key, one in text.items()}
        elif name == "allOf":
            kept.update(_bare(text[0]))
        elif name == "$ref":
            kept[name] = text.rpartition("/")[2]
        elif name in ("items", "additionalProperties") and isinstance(text, Mapping):
            kept[name] = _bare(dict(text))
        else:
            kept[name] = text
    return kept


@contextlib.contextmanager
def api_server(*flags: str) -> Iterator[KubeApi]:
    """Run an API server with etcd and nothing else; ``flags`` are more flags of the server."""
    programs = control_plane_binaries.find_or_build(Path(sys.prefix), lambda line: print(line, file=sys.stderr))
    with tempfile.TemporaryDirectory(prefix="joiner-schemas-") as folder:
        running = Programs(Path(folder) / "log")
        plane = ControlPlane(Path(folder), "schemas", programs, running, print, {"kube-apiserver": flags})
        try:
            plane.begin(authenticator="http://127.0.0.1:9")  # no client uses a token
            kube = plane.admin()
            _wait_until_ready(kube)
            yield kube
        finally:
            running.end()


def _wait_until_ready(kube: KubeApi, *, limit: float = 60.0) -> None:
    deadline = time.monotonic() + limit
    while True:
        try:
            kube.get("/readyz", timeout=2)
            return
        except (ApiError, urllib3.exceptions.HTTPError):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def read(path: Path) -> Schema:
    """Return the packaged schemas."""
    found: Schema = json.loads(gzip.decompress(path.read_bytes()))
    return found


def main() -> None:
    DATA.mkdir(exist_ok=True)
    OURS.write_bytes(packed(of_crds()))
    with api_server() as kube:
        BUILT_IN.write_bytes(packed(of_api_server(kube)))
    for path in (BUILT_IN, OURS):
        print(f"{path}: {len(read(path)['types'])} schemas, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
