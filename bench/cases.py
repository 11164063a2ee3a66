"""Recorded packing cases (``cases.jsonl``, ``catalogue.json``, ``answers.jsonl``) as values of Joiner.

A case counts equal pods together and is much shorter than manifests. ``pods`` are rows of count, millicores, MiB,
GPUs and constraints: ``app`` is the pod's only label; ``zoneSpread``, ``hostSpread`` (skew 1), ``zoneAffinity``,
``hostAntiAffinity`` name the app that they count; ``category`` is a node selector on the instance category;
``tolerates`` is the key of a taint. ``daemonset_overhead`` is for each node. The answers are those of Karpenter's
own scheduler, recorded once. ``bench/data`` has the cases that are part of this repository; others are read from
any folder of that form.
"""

import argparse
import gzip
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from joiner.catalogue import Catalogue
from joiner.planning import Snapshot
from joiner.pools import ResolvedNodeClass, Subnet

Json = Mapping[str, Any]

SHIPPED: Final = Path(__file__).parent / "data"
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
KARPENTER: Final = "karpenter.k8s.aws/"
TYPE_NAME: Final = re.compile(r"(?P<category>[a-z]+)(?P<generation>\d+)")
UNSCHEDULABLE: Final = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
}
CLASSES: Final = {
    "EC2NodeClass/default": ResolvedNodeClass(
        "default", "EC2NodeClass", subnets=tuple(Subnet(f"subnet-{zone}", zone) for zone in ZONES)
    )
}


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """One line of ``cases.jsonl`` with Karpenter's answer, if one was recorded."""

    name: str
    recorded: Json
    answer: Json | None

    @property
    def mix(self) -> str:
        """Return the kind of workload that the case was generated from."""
        return str(self.recorded["generator"]["kind"])

    @property
    def size(self) -> int:
        """Return the number of pods, as rounded in the case's name."""
        return int(self.name.split("-")[-2])

    @property
    def pods(self) -> int:
        """Return the number of its pods."""
        return sum(row[0] for row in self.recorded["pods"])

    def lists(self) -> dict[str, list[Json]]:
        """Return the case as the lists of an API server."""
        overhead = self.recorded["daemonset_overhead"]
        rows = enumerate(self.recorded["pods"])
        return {
            "nodepools": [node_pool(pool, 100 - position) for position, pool in enumerate(self.recorded["pools"])],
            "daemonsets": list(daemon_sets(overhead)) if overhead else [],
            "pods": [pod for position, row in rows for pod in pods_of(position, row)],
        }

    def snapshot(self) -> Snapshot:
        """Return the case as a snapshot of a cluster."""
        return Snapshot.from_lists(self.lists())


def add_case_arguments(parser: argparse.ArgumentParser, *, most_pods: int) -> None:
    """Add the options that select cases; ``most_pods`` is a default."""
    files = "cases.jsonl, catalogue.json and, if recorded, answers.jsonl"
    parser.add_argument("--cases", type=Path, default=SHIPPED, help=f"folder with {files}")
    parser.add_argument("--only", default="", help="names of cases that contain this")
    parser.add_argument("--most-pods", type=int, default=most_pods, help="leave larger cases out")


def select_cases(options: argparse.Namespace) -> list[RecordedCase]:
    """Return the cases that the options of ``add_case_arguments`` select. Raises SystemExit if there is none."""
    cases = [case for case in read_cases(options.cases) if options.only in case.name and case.pods <= options.most_pods]
    if not cases:
        raise SystemExit(f"no cases in {options.cases}")
    return cases


def read_cases(folder: Path) -> list[RecordedCase]:
    """Return all cases of a folder; empty if it does not exist."""
    answers = {one["name"]: one for one in map(json.loads, _text(folder / "answers.jsonl").splitlines())}
    cases = map(json.loads, _text(folder / "cases.jsonl").splitlines())
    return [RecordedCase(one["name"], one, answers.get(one["name"])) for one in cases]


def read_catalogue(folder: Path) -> Catalogue:
    """Return every type of the folder's catalogue, with exactly the allocatable resources of the recorded runs."""
    table = json.loads(_text(folder / "catalogue.json"))
    rows = (dict(zip(table["columns"], row, strict=True)) for row in table["types"])
    return Catalogue.from_json({row["name"]: instance_type(row) for row in rows})


def _text(path: Path) -> str:
    """Return the text of a file, or of its compressed form beside it; empty if neither exists."""
    if path.exists():
        return path.read_text(encoding="utf-8")
    packed = path.with_name(f"{path.name}.gz")
    return gzip.decompress(packed.read_bytes()).decode() if packed.exists() else ""


def instance_type(row: Json) -> Json:
    """Return one row in the format of ``joiner catalogue -o json``."""
    named = TYPE_NAME.match(row["name"])
    if named is None:
        raise ValueError(f"{row['name']} is no name of an instance type")
    family, _, size = row["name"].partition(".")
    labels = {
        "node.kubernetes.io/instance-type": row["name"],
        "kubernetes.io/arch": row["arch"],
        "kubernetes.io/os": "linux",
        f"{KARPENTER}instance-category": named["category"],
        f"{KARPENTER}instance-generation": named["generation"],
        f"{KARPENTER}instance-family": family,
        f"{KARPENTER}instance-size": size,
        f"{KARPENTER}instance-cpu": str(row["vcpu"]),
        f"{KARPENTER}instance-memory": str(row["memory_mib"]),
    }
    if row["gpus"]:
        labels |= {
            f"{KARPENTER}instance-gpu-name": row["gpu_name"] or "",
            f"{KARPENTER}instance-gpu-count": str(row["gpus"]),
        }
    memory = row["memory_mib"] - (64 if row["arch"] == "arm64" else 0)
    kept = math.ceil(0.075 * memory)
    devices = {"nvidia.com/gpu": str(row["gpus"])} if row["gpus"] else {}
    known = memory - kept
    can = known - (11 * row["pods"] + 255) - 100
    return {
        "labels": labels,
        "capacity": {"cpu": str(row["vcpu"]), "memory": f"{known}Mi", "pods": str(row["pods"]), **devices},
        "allocatable": {
            "cpu": f"{1000 * row['vcpu'] - reserved(row['vcpu'])}m",
            "memory": f"{can}Mi",
            "pods": str(row["pods"]),
            **devices,
        },
        "offerings": [{"zone": zone, "capacityType": "on-demand", "pricePerHour": row["price"]} for zone in ZONES],
    }


def reserved(vcpu: int) -> int:
    """Return the millicores that the kubelet reserves."""
    return int(60 + 10 * min(max(vcpu - 1, 0), 1) + 5 * min(max(vcpu - 2, 0), 2) + 2.5 * max(vcpu - 4, 0))


def node_pool(pool: Json, weight: int) -> Json:
    """Return the manifest of a NodePool with the limits of the recorded one."""
    requirements = [
        {"key": f"{KARPENTER}instance-category", "operator": "In", "values": list(pool["categories"])},
        {"key": f"{KARPENTER}instance-generation", "operator": "Gt", "values": [str(pool["min_generation"] - 1)]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": [pool["arch"]]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    if pool.get("max_vcpu"):
        requirements.append(
            {"key": f"{KARPENTER}instance-cpu", "operator": "Lt", "values": [str(pool["max_vcpu"] + 1)]}
        )
    spec: dict[str, Any] = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": requirements,
    }
    if pool.get("taint"):
        name, _, effect = pool["taint"].rpartition(":")
        key, _, value = name.partition("=")
        spec["taints"] = [{"key": key, "value": value, "effect": effect}]
    metadata = {"name": pool["name"], "uid": f"uid-{pool['name']}"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": metadata,
        "spec": {"weight": weight, "template": {"spec": spec}},
    }


def daemon_sets(overhead: Json) -> Iterator[Json]:
    """Yield one daemon set for each pod of the overhead, each with an equal share of it (the first gets the
    remainder)."""
    number = overhead["pods"]
    for position in range(number):
        cpu, memory = (
            overhead[name] // number + (overhead[name] % number if position == 0 else 0)
            for name in ("cpu_m", "memory_mib")
        )
        container = {"name": "main", "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}}
        yield {
            "metadata": {"name": f"daemon-{position}", "namespace": "kube-system", "uid": f"uid-daemon-{position}"},
            "spec": {
                "template": {
                    "metadata": {"labels": {"daemon": str(position)}},
                    "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
                }
            },
        }


def pods_of(position: int, row: Sequence[Any]) -> Iterator[Json]:
    """Yield the pods of one row, which differ only in their names."""
    count, cpu, memory, gpus, *rest = row
    constraints: Json = rest[0] if rest else {}
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}], **rules(constraints)}
    labels = {"app": str(constraints["app"])} if "app" in constraints else {}
    for number in range(count):
        name = f"r{position}-{number}"
        yield {
            "metadata": {"name": name, "namespace": "default", "labels": labels, "uid": name},
            "spec": spec,
            "status": UNSCHEDULABLE,
        }


def rules(constraints: Json) -> dict[str, Any]:
    """Return the constraints of a row as fields of a pod's spec."""
    spec: dict[str, Any] = {}
    spreads = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": str(constraints[name])}},
        }
        for name, key in (("zoneSpread", ZONE), ("hostSpread", HOST))
        if name in constraints
    ]
    if spreads:
        spec["topologySpreadConstraints"] = spreads
    for name, kind, key in (("zoneAffinity", "podAffinity", ZONE), ("hostAntiAffinity", "podAntiAffinity", HOST)):
        if name in constraints:
            term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": str(constraints[name])}}}
            spec.setdefault("affinity", {})[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if "category" in constraints:
        spec["nodeSelector"] = {f"{KARPENTER}instance-category": constraints["category"]}
    if "tolerates" in constraints:
        spec["tolerations"] = [{"key": constraints["tolerates"], "operator": "Exists"}]
    return spec
