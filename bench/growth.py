"""Growth of time and memory with pods, classes, types and nodes: ``python -m bench.growth [--plot FILE]``.

Each point is measured in its own process, because each function of Joiner runs in one. The process imports,
generates a cluster, reads and plans it, and reports the CPU seconds and its peak memory. Reading starts with the
bytes of an API server's response, page by page.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bench.plan_prices import calibrate

PAGE: Final = 500
"""Pods in one response of the API server."""
TENANT: Final = "example.com/tenant"
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")


@dataclass(frozen=True, slots=True)
class GeneratedLists:
    """The size of a generated cluster: pending pods in a number of classes, instance types, and full existing nodes.

    With ``tenants``, each class selects the nodes of one of them, by a label that the pool leaves open."""

    pods: int = 10_000
    classes: int = 500
    types: int = 600
    nodes: int = 0
    tenants: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """The measurements of one generated cluster: CPU seconds of the recording machine, and peak memory in MB."""

    generated: GeneratedLists
    importing: float
    reading: float
    planning: float
    megabytes: float
    gap: float


AXES: Final[Mapping[str, Sequence[GeneratedLists]]] = {
    "pods": [GeneratedLists(pods=pods, classes=min(pods, 500)) for pods in (100, 1_000, 10_000, 30_000, 100_000)],
    "classes": [GeneratedLists(classes=classes) for classes in (10, 50, 200, 500, 1_000, 2_000)],
    "types": [GeneratedLists(types=types) for types in (20, 100, 300, 600, 1_200)],
    "nodes": [GeneratedLists(nodes=nodes) for nodes in (0, 100, 500, 1_000, 2_000)],
    "tenants": [GeneratedLists(tenants=tenants, classes=max(500, tenants)) for tenants in (0, 10, 100, 300, 500)],
}


def raw_pods(generated: GeneratedLists) -> Iterator[bytes]:
    """Yield pages of a PodList, one line each; every pod is about as long as real ones (5 kB, most of it managed
    fields)."""
    rng = random.Random(generated.classes)  # noqa: S311 - random lists, no secret
    sizes = [
        (rng.choice((50, 100, 250, 500, 1000, 2000)), rng.choice((64, 128, 256, 512, 1024, 4096)))
        for _ in range(generated.classes)
    ]
    kinds = [json.dumps(_pod(kind, *size, tenants=generated.tenants)).encode() for kind, size in enumerate(sizes)]
    for start in range(0, generated.pods, PAGE):
        numbers = range(start, min(start + PAGE, generated.pods))
        yield (
            b'{"items": ['
            + b", ".join(kinds[n % generated.classes].replace(b"NUMBER", b"%08d" % n) for n in numbers)
            + b"]}\n"
        )


def _pod(kind: int, cpu: int, memory: int, *, tenants: int) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": f"registry.example/app-{kind}:1.0",
        "env": [{"name": f"SETTING_{n}", "value": "x" * 24} for n in range(16)],
        "resources": {
            "requests": {"cpu": f"{cpu + kind // 36}m", "memory": f"{memory}Mi"},
            "limits": {"memory": f"{memory}Mi"},
        },
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
    }
    fields: dict[str, Any] = {f"f:field-{n}": {"f:name": {}, "f:value": {}} for n in range(60)}
    metadata = {
        "name": f"app-{kind}-NUMBER",
        "namespace": "default",
        "uid": "uid-NUMBER",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": f"app-{kind}", "pod-template-hash": "5f6d"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": f"app-{kind}", "uid": f"owner-{kind}", "controller": True}],
        "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": fields}],
    }
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available",
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": "token", "projected": {"sources": []}}],
        "schedulerName": "default-scheduler",
        **({"nodeSelector": {TENANT: f"tenant-{kind % tenants}"}} if tenants else {}),
    }
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "conditions": [condition]}}


def catalogue_of(types: int) -> dict[str, Any]:
    """Return families of eight sizes each, with slightly different prices."""
    found = {}
    for number in range(types):
        family, size = divmod(number, 8)
        cpu, ratio = 2 << size, (2, 4, 8)[family % 3]
        amounts: dict[str, str] = {"cpu": str(cpu), "memory": f"{cpu * ratio}Gi", "pods": str(min(29 << size, 737))}
        price = cpu * (0.031 + 0.0035 * ratio) * (1 + (family * 37 % 101) / 200)
        name = f"m{family}.{2**size}xlarge"
        labels: dict[str, str] = {
            "node.kubernetes.io/instance-type": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "karpenter.k8s.aws/instance-cpu": str(cpu),
        }
        found[name] = {
            "labels": labels,
            "capacity": amounts,
            "allocatable": amounts | {"cpu": f"{cpu * 1000 - 90}m"},
            "offerings": [
                {"zone": zone, "capacityType": "on-demand", "pricePerHour": round(price, 4)} for zone in ZONES
            ],
        }
    return found


def lists_of(generated: GeneratedLists) -> dict[str, Any]:
    """Return all lists except the pending pods: one pool, and nodes without free capacity for the pods."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    requirements = [{"key": TENANT, "operator": "Exists"}] if generated.tenants else []
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default", "uid": "pool"},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": requirements}}},
    }
    nodes = [
        {
            "metadata": {
                "name": f"node-{n}",
                "labels": {"kubernetes.io/hostname": f"node-{n}", "topology.kubernetes.io/zone": ZONES[n % 3]},
            },
            "spec": {"providerID": f"aws:///{ZONES[n % 3]}/i-{n}"},
            "status": {
                "capacity": {"cpu": "4", "memory": "16Gi", "pods": "58"},
                "allocatable": {"cpu": "40m", "memory": "1Gi", "pods": "58"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        for n in range(generated.nodes)
    ]
    return {"nodepools": [pool], "nodes": nodes}


def measure(generated: GeneratedLists) -> Point:
    """Measure in this process, which must be a fresh one; it reads the pages from its standard input."""
    slower, started = calibrate(), time.process_time()
    import gc

    from joiner.catalogue import Catalogue
    from joiner.cluster.list_pages import PODS, read_page
    from joiner.planning import Snapshot, search  # the last one with the dependencies of the planning function
    from joiner.planning.effort import Effort
    from joiner.planning.planner import plan
    from joiner.pools import ResolvedNodeClass, Subnet

    imported = time.process_time()
    gc.disable()  # no memory is released before the result is printed
    known = Catalogue.from_json(catalogue_of(generated.types))
    subnets = tuple(Subnet(f"subnet-{zone}", zone) for zone in ZONES)
    classes = {"EC2NodeClass/default": ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets)}
    begun, pods = time.process_time(), list[Any]()
    for page in sys.stdin.buffer:
        pods += read_page(page, PODS)[0]
    snapshot = Snapshot.from_lists({**lists_of(generated), "pods": pods})
    read = time.process_time()
    made = plan(snapshot, known, classes=classes, effort=Effort(steps=0))
    planned = time.process_time()
    slower = (slower + calibrate()) / 2
    if made.pending or not search:
        raise RuntimeError(f"{len(made.pending)} pods stay pending")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Point(
        generated, (imported - started) / slower, (read - begun) / slower, (planned - read) / slower, most, made.gap
    )


def elsewhere(generated: GeneratedLists) -> Point:
    """Measure in a separate process."""
    command = [sys.executable, "-m", "bench.growth", "--generated", json.dumps(asdict(generated))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None  # noqa: S101 - PIPE makes one
        for page in raw_pods(generated):
            child.stdin.write(page)
        child.stdin.close()
        result = json.loads(child.stdout.read() if child.stdout else b"{}")
    return Point(GeneratedLists(**result.pop("generated")), **result)


def drawn(points: Mapping[str, Sequence[Point]]) -> str:
    """Return a chart for each axis: seconds of a plan (solid line) and megabytes (dashed line), both from zero."""
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 950" font-family="sans-serif" font-size="12">']
    parts.append('<rect width="880" height="950" fill="#fff"/>')
    for number, (axis, row) in enumerate(points.items()):
        parts += _panel(axis, row, 60 + number % 2 * 430, 40 + number // 2 * 310)
    return "\n".join([*parts, "</svg>\n"])


def _panel(axis: str, row: Sequence[Point], left: int, top: int) -> Iterator[str]:
    width, height = 320, 220
    sizes = [getattr(point.generated, axis) for point in row]
    seconds, megabytes = [point.planning for point in row], [point.megabytes for point in row]
    yield f'<text x="{left}" y="{top - 12}" font-weight="bold">{axis} (0 to {max(sizes):,})</text>'
    yield f'<path d="M{left},{top}v{height}h{width}v-{height}" fill="none" stroke="#94a3b8"/>'
    for values, unit, colour, dashes, x, anchor in (
        (seconds, "s", "#2563eb", "none", left - 6, "end"),
        (megabytes, "MB", "#dc2626", "6 4", left + width + 6, "start"),
    ):
        most = max(values) * 1.1
        places = [
            (left + width * size / max(sizes), top + height * (1 - value / most))
            for size, value in zip(sizes, values, strict=True)
        ]
        line = " ".join(f"{across:.1f},{down:.1f}" for across, down in places)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
        yield from (f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3" fill="{colour}"/>' for across, down in places)
        yield f'<text x="{x}" y="{top + 10}" text-anchor="{anchor}" fill="{colour}">{most:.3g} {unit}</text>'
        yield f'<text x="{x}" y="{top + height}" text-anchor="{anchor}" fill="{colour}">0</text>'


def lines(points: Mapping[str, Sequence[Point]]) -> Iterator[str]:
    """Yield a table, and the two goals for single generated clusters."""
    for axis, row in points.items():
        yield f"{axis:>10}{'import s':>12}{'read s':>10}{'plan s':>10}{'MB':>8}{'gap':>8}"
        for point in row:
            size = getattr(point.generated, axis)
            yield (
                f"{size:10,}{point.importing:12.3f}{point.reading:10.3f}{point.planning:10.3f}"
                f"{point.megabytes:8.0f}{point.gap:8.2%}"
            )
        yield ""
    by_pods = {point.generated.pods: point for point in points.get("pods", ())}
    if ten := by_pods.get(10_000):
        measured = f"{ten.reading + ten.planning:.2f} s, {ten.megabytes:.0f} MB"
        yield (
            f"{'10,000 raw pods to a plan, fresh process, after imports':64} goal  <= 0.5 s, 200 MB  "
            f"measured {measured}"
        )
    if hundred := by_pods.get(100_000):
        yield f"{'100,000 pods in 500 classes, the plan alone':64} goal  <= 1 s  measured {hundred.planning:.2f} s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--axis", choices=tuple(AXES), action="append", help="only this one (may be repeated)")
    parser.add_argument("--plot", type=Path, help="write the plot there (SVG)")
    parser.add_argument("--generated", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.generated:
        print(json.dumps(asdict(measure(GeneratedLists(**options.generated)))))
        return 0
    points = {axis: [elsewhere(generated) for generated in AXES[axis]] for axis in options.axis or AXES}
    print("\n".join(lines(points)))
    if options.plot:
        options.plot.write_text(drawn(points), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
