"""When the kubelets of launched instances start."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from joiner_local.control_plane.kube_api import KubeApi
from joiner_local.node_agent.instance_source import InstanceMetadata, InstanceReader
from joiner_local.node_agent.kubelets import BootTimes, SimulatedKubelets
from joiner_local.node_agent.node_joining import NodeJoining
from joiner_local.node_agent.node_objects import Ec2Instance
from joiner_local.node_agent.node_registration import Unbootable

HOUR = 3600.0
PATIENCE = 30.0

INSTANCE = Ec2Instance(
    "i-0",
    "ip-10-0-0-1.ec2.internal",
    "10.0.0.1",
    instance_type="m5.large",
    zone="us-east-1a",
    architecture="x86_64",
    image_id="ami-1",
    root_device="/dev/xvda",
)


@dataclass
class LaunchedInstances(InstanceReader):
    """Instances with these times of their launch; `calls` are the ids of each description."""

    endpoint: str = "http://127.0.0.1:1"
    region: str = "us-east-1"
    launched: dict[str, float] = field(default_factory=dict)
    calls: list[Sequence[str]] = field(default_factory=list)

    def instances(self, ids: Sequence[str]) -> Iterator[Ec2Instance]:
        self.calls.append(ids)
        return (replace(INSTANCE, id=each) for each in ids if each in self.launched)

    def metadata(self, ids: Sequence[str]) -> dict[str, InstanceMetadata]:
        return {each: InstanceMetadata(self.launched[each], b"", {}) for each in ids if each in self.launched}


class RefusedJoining(NodeJoining):
    """Refuses every node, and releases the test when `expected` have come."""

    def __init__(self, expected: int) -> None:
        self.came: list[str] = []
        self.expected = expected
        self.complete = threading.Event()

    def join(self, instance: Ec2Instance, *_: Any, **__: Any) -> Any:
        self.came.append(instance.id)
        if len(self.came) == self.expected:
            self.complete.set()
        raise Unbootable("this test has no cluster")


def kubelets(aws: LaunchedInstances, joining: RefusedJoining, boot: float) -> SimulatedKubelets:
    return SimulatedKubelets(aws, cast(KubeApi, None), joining, BootTimes(boot=boot))


def test_a_boot_counts_from_the_launch_and_not_from_when_the_agent_hears_of_it() -> None:
    now = time.time()
    aws = LaunchedInstances(launched={"i-old": now - HOUR, "i-new": now})
    joining = RefusedJoining(expected=1)
    agent = kubelets(aws, joining, boot=HOUR)

    agent.changed({"i-new": "running", "i-old": "running"})

    assert joining.complete.wait(PATIENCE)
    assert joining.came == ["i-old"]
    assert agent.describe()["i-new"]["phase"] == "booting"


def test_instances_that_start_together_are_described_by_one_call() -> None:
    ids = [f"i-{number}" for number in range(10)]
    aws = LaunchedInstances(launched=dict.fromkeys(ids, 0.0))
    joining = RefusedJoining(expected=10)

    kubelets(aws, joining, boot=HOUR).changed(dict.fromkeys(ids, "running"))

    assert joining.complete.wait(PATIENCE)
    assert sorted(joining.came) == sorted(ids)
    assert aws.calls == [ids]
