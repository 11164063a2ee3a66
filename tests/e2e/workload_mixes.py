"""Test workloads: the web, batch and constrained mixes, of any size, with the same pods in each run.

The web and the constrained mixes come from the recorded cases (`bench.cases`); the batch mix is created here, of a few
large Jobs.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.cases import daemon_sets, node_pool, pods_of, read_cases
from joiner_local.control_plane.kube_api import Object
from tests.e2e.stack_manifests import PAUSE, node_class

Row = Sequence[Any]
"""Count, millicores, MiB, GPUs, rules: as in the recorded cases."""

RECORDED: Final = Path(__file__).parents[2] / "bench" / "data"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
OVERHEAD: Final = {"cpu_m": 150, "memory_mib": 300, "pods": 1}
LARGEST: Final = 32  # vCPUs of a node: a thousand pods on a handful of the largest machines would be a small world

ON_DEMAND: Final = {"name": "default", "categories": "cmr", "arch": "amd64", "min_generation": 3, "max_vcpu": LARGEST}
SPOT: Final = {**ON_DEMAND, "name": "spot", "taint": "dedicated=batch:NoSchedule"}

CASES: Final = {"web": "web32", "constrained": "webcons"}


@dataclass(frozen=True, slots=True)
class Mix:
    """Pods, their pools, and the DaemonSets of every node."""

    pods: tuple[Object, ...]
    pools: tuple[Object, ...]
    daemons: tuple[Object, ...]


def mix(kind: str, number: int) -> Mix:
    """Return a mix with this number of pods."""
    rows = jobs(number) if kind == "batch" else recorded(CASES[kind], number)
    pods = [_pod(pod) for position, row in enumerate(rows) for pod in pods_of(position, row)]
    random.Random(number).shuffle(pods)  # noqa: S311 - the same pods each time, in no order
    pools = (_pool(ON_DEMAND), _pool(SPOT, "spot")) if kind == "batch" else (_pool(ON_DEMAND),)
    return Mix(
        tuple(pods[:number]),
        (node_class("default"), *pools),
        tuple(_daemon_set(each) for each in daemon_sets(OVERHEAD)),
    )


def recorded(kind: str, number: int) -> list[Row]:
    """Return the rows of the smallest recorded case of a kind with at least this number of pods."""
    cases = [case for case in read_cases(RECORDED) if case.mix == kind and case.pods >= number]
    found: list[Row] = min(cases, key=lambda case: case.pods).recorded["pods"]
    return found


def jobs(number: int) -> Iterator[Row]:
    """Return Jobs of about 25 equal pods, some with many more; two of three may run on spot.

    >>> [row[0] for row in jobs(60)]
    [17, 3, 41]
    """
    chance = random.Random(number)  # noqa: S311
    lengths = [chance.lognormvariate(0, 1.3) for _ in range(max(3, number // 25))]
    for index, length in enumerate(lengths):
        cpu = chance.choice((500, 1000, 2000, 4000))
        memory = cpu * chance.choice((1, 2, 4, 7))
        rules = {"app": f"job-{index}", **({"tolerates": "dedicated"} if index % 3 else {})}
        yield [math.ceil(number * length / sum(lengths)), cpu, memory, 0, rules]


def _pod(drawn: Any) -> Object:
    """Add what the recorded cases leave out: an image, and no grace period."""
    containers = [{**each, "image": PAUSE} for each in drawn["spec"]["containers"]]
    own = {"containers": containers, "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
    metadata = {key: drawn["metadata"][key] for key in ("name", "namespace", "labels")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**drawn["spec"], **own}}


def _pool(pool: Any, capacity_type: str = "on-demand") -> Object:
    made = dict(node_pool(pool, 10))
    requirements = made["spec"]["template"]["spec"]["requirements"]
    asked = [{**each, "values": [capacity_type]} if each["key"] == CAPACITY_TYPE else each for each in requirements]
    template = {"spec": {**made["spec"]["template"]["spec"], "requirements": asked, "expireAfter": "Never"}}
    return {**made, "metadata": {"name": pool["name"]}, "spec": {**made["spec"], "template": template}}


def _daemon_set(drawn: Any) -> Object:
    template = drawn["spec"]["template"]
    labels = template["metadata"]["labels"]
    containers = [{**each, "image": PAUSE} for each in template["spec"]["containers"]]
    spec = {**template["spec"], "containers": containers, "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": drawn["metadata"]["name"], "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
