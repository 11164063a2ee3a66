"""The main job before one's eyes: `python -m joiner_local.demo`.

Starts a stack of its own, deploys this very app into it, applies a scenario as its users wrote it, scales a deployment up twice, tells
what happens while it happens, and ends the stack. Exit code 0 only if every pod ran and nothing was left.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console
from rich.table import Table

from joiner_local.deployment import Deployment, DeploymentFailed
from joiner_local.kube_api import ApiError, KubeApi
from joiner_local.stack import REPOSITORY, Stack, StackFailed
from joiner_local.story import Moment, StateTime, StoryStalled, Watch, instances, states, summary

SCENARIO: Final = REPOSITORY / "examples" / "scenarios" / "c-template.yaml"
STYLES: Final = {"pod": "magenta", "execution": "cyan", "instance": "yellow", "node": "green"}
PLAIN_WIDTH: Final = 120  # columns, where the output is no terminal
SHOWN_STATES: Final = 24  # of one execution; a long wait has many looks, which are told as one line

INFLATE: Final[dict[str, Any]] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "inflate", "namespace": "default"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "inflate"}},
        "template": {
            "metadata": {"labels": {"app": "inflate"}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "inflate",
                        "image": "public.ecr.aws/eks-distro/kubernetes/pause:3.2",
                        "resources": {"requests": {"cpu": "1"}},
                    }
                ],
            },
        },
    },
}


@dataclass(slots=True)
class DeployedWorld:
    """A deployed stack as `story` looks at it."""

    stack: Stack
    kube: KubeApi
    scale_up_arn: str
    clients: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, stack: Stack) -> "DeployedWorld":
        return cls(stack, stack.kube(), stack.outputs()["ScaleUpArn"])

    def client(self, service: str) -> Any:
        if service not in self.clients:
            self.clients[service] = self.stack.client(service)
        return self.clients[service]


@dataclass
class Demo:
    """One showing; `took` holds what each step cost in seconds."""

    console: Console
    root: Path
    took: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        stack = Stack(self.root, say=self._say)
        deployment = Deployment(REPOSITORY, self.root, say=self._say)
        if stack.is_running:  # somebody's: it is not ours to end
            raise StackFailed(f"a stack runs in {self.root} already: leave out --root, or end it by `joiner local down`")
        try:
            with self._step("the control plane and the local AWS start"):
                deployment.begin_synthesis()
                stack.start()
            with self._step("cdk deploy of this app"):
                outputs = stack.deploy(deployment)
            self._say(f"state machine {outputs['ScaleUpArn'].rpartition(':')[2]}")
            world = DeployedWorld.of(stack)
            with self._step(f"kubectl apply -f {SCENARIO.relative_to(REPOSITORY)}"):
                world.kube.apply_manifests([*yaml.safe_load_all(SCENARIO.read_text()), INFLATE])
            for replicas in (1, 17):
                with self._step(f"kubectl scale deployment inflate --replicas={replicas}"):
                    self._scale(world, replicas)
            self._bill(world)
        finally:
            with self._step("everything is taken down"):
                stack.stop()
        self._times()

    def _scale(self, world: DeployedWorld, replicas: int) -> None:
        watch = Watch(world, "inflate")
        world.kube.merge("/apis/apps/v1/namespaces/default/deployments/inflate", {"spec": {"replicas": replicas}})
        for moment in watch.until_running(replicas):
            self._tell(moment)
        client = world.client("stepfunctions")
        for arn in watch.executions:
            said = summary(client, arn)
            if said.get("launched"):
                self._execution(arn.rpartition(":")[2], states(client, arn), said)

    def _tell(self, moment: Moment) -> None:
        style = STYLES[moment.stage]
        self.console.print(f"  [dim]{moment.seconds:6.2f} s[/]  [{style}]{moment.stage:<9}[/]  {moment.text}", highlight=False)

    def _execution(self, name: str, found: list[StateTime], said: dict[str, Any]) -> None:
        table = Table("state", "at", "took", title=f"execution {name}", title_justify="left", box=None, padding=(0, 2))
        for state in _folded(found)[:SHOWN_STATES]:
            table.add_row(state.name, f"{state.entered:.2f} s", f"{state.seconds:.2f} s")
        self.console.print(table)
        if "pricePerHour" in said:
            bound = f", no plan could cost less than ${said['lowerBoundPerHour']:.4f}" if said.get("lowerBoundPerHour") else ""
            self.console.print(f"  planned for ${said['pricePerHour']:.4f} an hour{bound}", highlight=False)

    def _bill(self, world: DeployedWorld) -> None:
        claims = world.kube.items("/apis/karpenter.sh/v1alpha5/machines")
        table = Table("node", "type", "zone", "pods", title="what runs now", title_justify="left", box=None, padding=(0, 2))
        pods = world.kube.items("/api/v1/pods")
        for node in world.kube.items("/api/v1/nodes"):
            labels, name = node["metadata"]["labels"], node["metadata"]["name"]
            held = sum(pod["spec"].get("nodeName") == name for pod in pods)
            table.add_row(name, labels["node.kubernetes.io/instance-type"], labels["topology.kubernetes.io/zone"], str(held))
        self.console.print(table)
        alive = instances(world.client("ec2"), alive=True)
        prices = [price_per_hour(world.client("pricing"), instance["InstanceType"]) for instance in alive]
        self.console.print(f"  {len(alive)} instances, {len(claims)} machines: [bold]${sum(prices):.4f} an hour[/]", highlight=False)
        if len(claims) != len(alive):
            raise StoryStalled(f"{len(alive)} instances but {len(claims)} machines")

    def _times(self) -> None:
        table = Table("step", "took", title="how long each step took", title_justify="left", box=None, padding=(0, 2))
        for what, seconds in self.took.items():
            table.add_row(what, f"{seconds:.1f} s")
        self.console.print(table)

    @contextmanager
    def _step(self, what: str) -> Iterator[None]:
        self.console.print(f"\n[bold]▸ {what}[/]", highlight=False)
        began = time.monotonic()
        yield
        self.took[what] = time.monotonic() - began

    @cached_property
    def _say(self) -> Callable[[str], None]:
        return lambda line: self.console.print(f"  {line}", style="dim", highlight=False, markup=False)


def _folded(found: list[StateTime]) -> list[StateTime]:
    """States in order, each name once: when first entered, and the time of all its visits together."""
    first: dict[str, StateTime] = {}
    for state in found:
        known = first.get(state.name)
        first[state.name] = StateTime(state.name, known.entered, known.seconds + state.seconds) if known else state
    return list(first.values())


def price_per_hour(pricing: Any, instance_type: str) -> float:
    """The on-demand price of an instance type, as the Price List API tells it, US$."""
    filters = [{"Type": "TERM_MATCH", "Field": "instanceType", "Value": instance_type}]
    product = json.loads(pricing.get_products(ServiceCode="AmazonEC2", Filters=filters)["PriceList"][0])
    term = next(iter(product["terms"]["OnDemand"].values()))
    return float(next(iter(term["priceDimensions"].values()))["pricePerUnit"]["USD"])


def main() -> int:
    """Exit code: 0 the whole story happened; 1 it did not, and standard error says where it stopped."""
    parser = argparse.ArgumentParser(prog="python -m joiner_local.demo", description="Joiner's main job, shown on real parts.")
    parser.add_argument("--root", type=Path, help="folder of the stack; by default a temporary one")
    root = parser.parse_args().root
    with tempfile.TemporaryDirectory(prefix="joiner-demo-", ignore_cleanup_errors=True) as temporary:
        try:
            Demo(Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH), root or Path(temporary)).run()
        except (StackFailed, DeploymentFailed, StoryStalled, ApiError) as error:
            print(f"the demo stopped: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
