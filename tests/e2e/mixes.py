"""What clusters are asked for at once: the web, batch and constrained mixes, of any size, the same pods each time.

The web and the constrained mixes are drawn from the recorded cases (`bench.cases`); the batch mix is made here, of a few large jobs.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.cases import daemon_sets, node_pool, pods_of, read_cases
from joiner_local.kube_api import Object
from tests.e2e.world import PAUSE, node_class

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
    """Pods that come together, the pools that are for them, and what runs on every node beside them."""

    pods: tuple[Object, ...]
    pools: tuple[Object, ...]
    daemons: tuple[Object, ...]


def mix(kind: str, number: int) -> Mix:
    """One of the mixes with that many pods."""
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
    """The rows of the smallest recorded case of that kind with so many pods or more."""
    cases = [case for case in read_cases(RECORDED) if case.mix == kind and case.pods >= number]
    found: list[Row] = min(cases, key=lambda case: case.pods).said["pods"]
    return found


def jobs(number: int) -> Iterator[Row]:
    """About 25 pods a job, some much longer, all of a job alike; two jobs in three may run on spot.

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
    """What the cases leave out because a planner does not ask: the image; and it goes at once when deleted."""
    containers = [{**each, "image": PAUSE} for each in drawn["spec"]["containers"]]
    own = {"containers": containers, "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
    metadata = {key: drawn["metadata"][key] for key in ("name", "namespace", "labels")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**drawn["spec"], **own}}


def _pool(said: Any, capacity_type: str = "on-demand") -> Object:
    made = dict(node_pool(said, 10))
    requirements = made["spec"]["template"]["spec"]["requirements"]
    asked = [{**each, "values": [capacity_type]} if each["key"] == CAPACITY_TYPE else each for each in requirements]
    template = {"spec": {**made["spec"]["template"]["spec"], "requirements": asked, "expireAfter": "Never"}}
    return {**made, "metadata": {"name": said["name"]}, "spec": {**made["spec"], "template": template}}


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
