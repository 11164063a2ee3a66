"""`python -m joiner_local.kube_schemas`: writes the schemas that the `joiner` command reads manifests by.

Those of built-in kinds are what the API server of this checkout publishes of itself (OpenAPI v3), those of ours are the CRDs in
``manifests/crds``. Descriptions are left out, and of Kubernetes' kinds only those are kept that a plan is made from.
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

from joiner_local import binaries
from joiner_local.catalogue_facts import packed
from joiner_local.control_plane import ControlPlane
from joiner_local.kube_api import ApiError, KubeApi
from joiner_local.processes import Programs

REPOSITORY: Final = Path(__file__).parents[2]
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

NOT_READ: Final = frozenset({"description", "title", "externalDocs", "x-kubernetes-validations", "x-kubernetes-group-version-kind"})
Schema = dict[str, Any]


def of_api_server(kube: KubeApi) -> Schema:
    """The built-in kinds: which there are in each version, and the schemas of those that count."""
    types: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    others: dict[str, list[str]] = {}
    namespaced: list[str] = []
    for version, wanted in KINDS.items():
        prefix = f"apis/{version}" if "/" in version else f"api/{version}"
        listed = {one["kind"]: one["namespaced"] for one in kube.get(f"/{prefix}")["resources"] if "/" not in one["name"]}
        others[version] = sorted(listed.keys() - set(wanted))
        namespaced += [f"{version}/{kind}" for kind in wanted if listed[kind]]
        schemas = kube.get(f"/openapi/v3/{prefix}")["components"]["schemas"]
        for kind in wanted:
            kinds[f"{version}/{kind}"] = _own(schemas, version, kind)
            _collect(schemas, kinds[f"{version}/{kind}"], types)
    release = kube.get("/version")["gitVersion"]
    return {"release": release, "kinds": kinds, "others": others, "namespaced": sorted(namespaced), "types": types}


def of_crds() -> Schema:
    """Our kinds, from their CRDs."""
    types: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    for path in sorted(CRDS.glob("*.yaml")):
        for crd in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            spec = crd["spec"]
            for version in spec["versions"]:
                name = f"{spec['group']}/{version['name']}/{spec['names']['kind']}"
                kinds[name] = name
                types[name] = _bare(version["schema"]["openAPIV3Schema"])
    return {"kinds": kinds, "types": types}


def _own(schemas: Mapping[str, Any], version: str, kind: str) -> str:
    group, _, short = version.rpartition("/")
    wanted = {"group": group, "version": short, "kind": kind}
    return next(name for name, one in schemas.items() if wanted in one.get("x-kubernetes-group-version-kind", ()))


def _collect(schemas: Mapping[str, Any], name: str, into: dict[str, Any]) -> None:
    """This schema and every one that it refers to."""
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
    """Without what is only for readers, references by name; a default of nothing is none."""
    kept: Schema = {}
    for name, said in schema.items():
        if name in NOT_READ or (name == "default" and said in ({}, "", 0)):
            continue
        if name == "properties":
            kept[name] = {key: _bare(one) for key, one in said.items()}
        elif name == "allOf":
            kept.update(_bare(said[0]))
        elif name == "$ref":
            kept[name] = said.rpartition("/")[2]
        elif name in ("items", "additionalProperties") and isinstance(said, Mapping):
            kept[name] = _bare(dict(said))
        else:
            kept[name] = said
    return kept


@contextlib.contextmanager
def api_server(*flags: str) -> Iterator[KubeApi]:
    """An API server with etcd and nothing else, for as long as it is asked; ``flags`` are more of the server's."""
    programs = binaries.find_or_build(Path(sys.prefix), lambda line: print(line, file=sys.stderr))
    with tempfile.TemporaryDirectory(prefix="joiner-schemas-") as folder:
        running = Programs(Path(folder) / "log")
        plane = ControlPlane(Path(folder), "schemas", programs, running, print, {"kube-apiserver": flags})
        try:
            plane.begin(authenticator="http://127.0.0.1:9")  # nobody comes with a token
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
    """What was packaged."""
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
