"""A demonstration of scaling up and down: `python -m joiner_local.demo`.

It starts a stack of its own, deploys this app, applies a scenario as its users wrote it, scales a deployment up twice
and down to nothing, reports changes and costs, and ends the stack. The exit code is 0 only if every pod ran, every node
was removed after its time, and nothing remained.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console
from rich.table import Table

from joiner_local.control_plane.kube_api import ApiError, KubeApi
from joiner_local.demo.change_watch import (
    ChangeWatch,
    ObservedChange,
    StateDuration,
    WatchTimeout,
    instances,
    states,
    summary,
    until,
)
from joiner_local.demo.cost_report import joiner_usage, lifetimes, price_per_hour
from joiner_local.stack.cdk_deployment import Deployment, DeploymentFailed
from joiner_local.stack.stack_control import REPOSITORY, LocalStack, StackFailed

SCENARIO: Final = REPOSITORY / "examples" / "scenarios" / "c-template.yaml"
STYLES: Final = {"pod": "magenta", "execution": "cyan", "instance": "yellow", "node": "green"}
PLAIN_WIDTH: Final = 120  # columns, if the output is no terminal
PROVISIONER: Final = "/apis/karpenter.sh/v1alpha5/provisioners/default"
MACHINES: Final = "/apis/karpenter.sh/v1alpha5/machines"
INFLATE_PATH: Final = "/apis/apps/v1/namespaces/default/deployments/inflate"
TEMPORARY: Final = "joiner-demo-"  # prefix of a demonstration's folder
TTL: Final = 30  # seconds a node may be empty
SHOWN_STATES: Final = 24  # of one execution; repeated states are one line

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
class DemoStack:
    """A deployed stack as `change_watch` needs it."""

    stack: LocalStack
    kube: KubeApi
    scale_up_arn: str
    retire_arn: str
    retire_empty_arn: str
    clients: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, stack: LocalStack) -> "DemoStack":
        outputs = stack.outputs()
        return cls(stack, stack.kube(), outputs["ScaleUpArn"], outputs["RetireArn"], outputs["RetireEmptyArn"])

    def client(self, service: str) -> Any:
        if service not in self.clients:
            self.clients[service] = self.stack.client(service)
        return self.clients[service]

    def knob(self, name: str, /, **request: object) -> Mapping[str, Any]:
        """Call a knob of the local AWS, for what AWS has no API."""
        return self.stack.knob(name, request)


@dataclass
class Demonstration:
    """One demonstration; `took` has the seconds of each step."""

    console: Console
    root: Path
    took: dict[str, float] = field(default_factory=dict)
    executions: list[str] = field(default_factory=list)

    def run(self) -> None:
        stack = LocalStack(self.root, say=self._say)
        deployment = Deployment(REPOSITORY, self.root, say=self._say)
        if stack.is_running:  # another user's stack, which must not be ended
            raise StackFailed(
                f"a stack runs in {self.root} already: leave out --root, or end it by `joiner local down`"
            )
        try:
            with self._step("the control plane and the local AWS start"):
                deployment.begin_synthesis()
                stack.start()
            with self._step("cdk deploy of this app"):
                outputs = stack.deploy(deployment)
            self._say(f"state machine {outputs['ScaleUpArn'].rpartition(':')[2]}")
            world = DemoStack.of(stack)
            with self._step(f"kubectl apply -f {SCENARIO.relative_to(REPOSITORY)}"):
                world.kube.apply_manifests([*yaml.safe_load_all(SCENARIO.read_text()), INFLATE])
            for replicas in (1, 17):
                with self._step(f"kubectl scale deployment inflate --replicas={replicas}"):
                    self._scale_up(world, replicas)
            self._running(world)
            with self._step(f"kubectl patch provisioner default: ttlSecondsAfterEmpty: {TTL}"):
                world.kube.merge(PROVISIONER, {"spec": {"ttlSecondsAfterEmpty": TTL}})
            with self._step("kubectl scale deployment inflate --replicas=0"):
                self._scale_down(world)
            self._bill(world)
        finally:
            with self._step("everything is taken down"):
                stack.stop()
        self._times()

    def _scale_up(self, world: DemoStack, replicas: int) -> None:
        watch = ChangeWatch(world, "inflate")
        world.kube.merge(INFLATE_PATH, {"spec": {"replicas": replicas}})
        for moment in watch.until_running(replicas):
            self._print_change(moment)
        self._print_changes(world, watch)

    def _scale_down(self, world: DemoStack) -> None:
        """Scale down: each node is removed when it has been empty for its time, and not earlier."""
        watch = ChangeWatch(world, "inflate")
        nodes = len(watch.present)
        world.kube.merge(INFLATE_PATH, {"spec": {"replicas": 0}})
        until(lambda: not watch.pods(), what="the pods gone")
        for moment in watch.moments():
            self._print_change(moment)
        empty = time.monotonic()
        self._say("the sweep runs once a minute; the demonstration runs it now, without the wait")
        world.stack.fire_sweep()
        for moment in watch.until_gone():
            self._print_change(moment)
            if moment.text.endswith("is gone") and time.monotonic() - empty < TTL:
                raise WatchTimeout(
                    f"{moment.text} {time.monotonic() - empty:.1f} s after it was empty, and not after {TTL} s"
                )
        until(lambda: not world.kube.items(MACHINES), what="the machines gone")
        self._print_changes(world, watch)
        self.console.print(
            f"  {nodes} nodes were empty, drained and terminated; no node, machine or instance is left", highlight=False
        )

    def _print_changes(self, world: DemoStack, watch: ChangeWatch) -> None:
        """Show the executions of one step; those that launched or retired something are shown state by state."""
        self.executions += watch.executions
        for arn in watch.executions:
            value = summary(world, arn)
            if value.get("launched") or value.get("retired"):
                self._execution(arn.split(":")[7], states(world, arn), value)

    def _print_change(self, moment: ObservedChange) -> None:
        style = STYLES[moment.stage]
        self.console.print(
            f"  [dim]{moment.seconds:6.2f} s[/]  [{style}]{moment.stage:<9}[/]  {moment.text}", highlight=False
        )

    def _execution(self, name: str, found: list[StateDuration], value: dict[str, Any]) -> None:
        table = Table("state", "at", "took", title=f"execution {name}", title_justify="left", box=None, padding=(0, 2))
        acting = _folded([state for state in found if not state.name.endswith("?")])  # Choice states are left out
        for state in acting[:SHOWN_STATES]:
            table.add_row(state.name, f"{state.entered:.2f} s", f"{state.seconds:.2f} s")
        self.console.print(table)
        if "pricePerHour" in value:
            bound = (
                f", no plan could cost less than ${value['lowerBoundPerHour']:.4f}"
                if value.get("lowerBoundPerHour")
                else ""
            )
            self.console.print(f"  planned for ${value['pricePerHour']:.4f} an hour{bound}", highlight=False)

    def _running(self, world: DemoStack) -> None:
        claims = world.kube.items(MACHINES)
        table = Table(
            "node", "type", "zone", "pods", title="what runs now", title_justify="left", box=None, padding=(0, 2)
        )
        pods = world.kube.items("/api/v1/pods")
        for node in world.kube.items("/api/v1/nodes"):
            labels, name = node["metadata"]["labels"], node["metadata"]["name"]
            held = sum(pod["spec"].get("nodeName") == name for pod in pods)
            table.add_row(
                name, labels["node.kubernetes.io/instance-type"], labels["topology.kubernetes.io/zone"], str(held)
            )
        self.console.print(table)
        alive = instances(world.client("ec2"), alive=True)
        prices = [price_per_hour(world.client("pricing"), instance["InstanceType"]) for instance in alive]
        self.console.print(
            f"  {len(alive)} instances, {len(claims)} machines: [bold]${sum(prices):.4f} an hour[/]", highlight=False
        )
        if len(claims) != len(alive):
            raise WatchTimeout(f"{len(alive)} instances but {len(claims)} machines")

    def _bill(self, world: DemoStack) -> None:
        """Show the cost."""
        table = Table("what", "how much", "$", title="what it all cost", title_justify="left", box=None, padding=(0, 2))
        lived, own = lifetimes(world), joiner_usage(world, self.executions)
        for life in lived:
            table.add_row(
                f"{life.instance_type} at ${life.price_per_hour:.4f} an hour",
                f"{life.seconds:.0f} s",
                f"{life.dollars:.5f}",
            )
        used = (
            f"{own.transitions} transitions, {own.express_seconds:.0f} s of Express, {own.requests} calls, "
            f"{own.gb_seconds:.0f} GB-s"
        )
        table.add_row("Joiner itself: Step Functions and Lambda", used, f"{own.dollars:.5f}")
        table.add_row("together", "", f"{own.dollars + sum(life.dollars for life in lived):.5f}")
        self.console.print(table)

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


def _folded(found: list[StateDuration]) -> list[StateDuration]:
    """Return states in order, each name once: its first entry, how often it ran, and the total time.

    >>> states = [StateDuration("Wait", 0.0, 1.0), StateDuration("Look", 1.0, 0.1), StateDuration("Wait", 1.1, 1.0)]
    >>> [state.name for state in _folded(states)]
    ['Wait (2 times)', 'Look']
    """
    visits: dict[str, list[StateDuration]] = {}
    for state in found:
        visits.setdefault(state.name, []).append(state)
    return [
        StateDuration(
            f"{name} ({len(all_)} times)" if len(all_) > 1 else name,
            all_[0].entered,
            sum(state.seconds for state in all_),
        )
        for name, all_ in visits.items()
    ]


def _clear_left() -> None:
    """Remove folders of demonstrations that were killed: they ended, but could not clean up. Errors are ignored."""
    for root in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*"):
        with suppress(OSError, RuntimeError):
            stack = LocalStack(root)
            record = stack.record() if root.lstat().st_uid == os.getuid() else None
            if record is not None and not record.supervisor.lives():
                stack.stop()
                shutil.rmtree(root, ignore_errors=True)


@contextmanager
def temporary_root(within: Path | None = None) -> Iterator[Path]:
    """Yield a folder for a stack, and delete it in the end. After an error its logs stay, which the error may name."""
    root = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=within))
    logs = root / "log"
    kept: set[Path] = set()
    try:
        yield root
    except Exception as error:
        if logs.is_dir():
            kept.add(logs)
            error.add_note(f"the logs are kept in {logs}")
        raise
    finally:
        for each in set(root.iterdir()) - kept:
            shutil.rmtree(each, ignore_errors=True) if each.is_dir() else each.unlink(missing_ok=True)
        if not kept:
            shutil.rmtree(root, ignore_errors=True)


def main() -> int:
    """Run the demonstration. Exit code: 0 if it was complete; 1 if not, with the reason on standard error; 130 after an
    interrupt.
    """
    parser = argparse.ArgumentParser(
        prog="python -m joiner_local.demo",
        description="Scales a deployment up and down in a local stack, and shows what happens.",
    )
    parser.add_argument("--root", type=Path, help="folder of the stack; by default a temporary one")
    root = parser.parse_args().root
    _clear_left()
    try:
        with temporary_root() as temporary:
            console = Console(soft_wrap=True) if sys.stdout.isatty() else Console(width=PLAIN_WIDTH, soft_wrap=True)
            Demonstration(console, root or temporary).run()
    except (StackFailed, DeploymentFailed, WatchTimeout, ApiError) as error:
        print("\n".join([f"the demo stopped: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("the demo was interrupted", file=sys.stderr)
        return 130
    return 0
