"""The supervisor of a stack: `python -m joiner_local.stack.supervisor --root .local --binaries DIR --runtime-python
PYTHON`.

It starts every program of the stack from its main thread (the kernel ends them with that thread), serves the
authenticator from another thread, and watches. If one program ends, the stack ends: half a cluster would only cause
confusing errors. SIGTERM ends it; so does the end of stdin, unless a `d` (for detach) was written before, so that a
stack ends with the process that started it.

SIGUSR1 restarts the API server: it is ended, and starts again two seconds later with the same address and certificates.

It records its progress in `ROOT/stack.json` (`stack_record`); programs log to `ROOT/log/`.
"""

import argparse
import dataclasses
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from joiner_local.aws.account_setup import cdk_bootstrap
from joiner_local.aws.account_setup.cluster_network import seed_network
from joiner_local.control_plane.authenticator import Authenticator
from joiner_local.control_plane.control_plane_binaries import Binaries, kubernetes_version
from joiner_local.control_plane.kubernetes_control_plane import SERVICE_CIDR, ControlPlane
from joiner_local.knob_client import turn_knob
from joiner_local.stack.stack_processes import ProcessIdentity, Program, Programs
from joiner_local.stack.stack_record import DETACH, StackRecord, StartStep

RESTART_SECONDS = 2.0
"""From the end of the API server to its start, when it is restarted. The start takes a few seconds more."""
GENTLY = ("aws", "node-agent")  # they end processes of their own; the others have no state to keep


@dataclass(frozen=True, slots=True)
class StackConfiguration:
    """The configuration of a stack."""

    root: Path
    cluster: str
    binaries: Binaries
    runtime_python: Path
    agent_arguments: tuple[str, ...] = ()
    scheduler_arguments: tuple[str, ...] = ()


@dataclass(slots=True)
class Supervisor:
    plan: StackConfiguration
    programs: Programs
    record: StackRecord
    began: float = field(default_factory=time.monotonic)
    listener: socket.socket = field(default_factory=Authenticator.listen)
    authenticator: Authenticator | None = None
    restart_requested: threading.Event = field(default_factory=threading.Event)
    recording: threading.RLock = field(default_factory=threading.RLock)

    def record_step(self, what: str) -> None:
        """Record a step. Two threads do so."""
        with self.recording:
            self.note(steps=(*self.record.steps, StartStep(what, round(time.monotonic() - self.began, 2))))

    def note(self, **changed: Any) -> None:
        """Change fields of the record."""
        with self.recording:
            self.record = dataclasses.replace(self.record, **changed)
            self.record.write(self.plan.root)

    def start(self) -> None:
        """Start everything, concurrently where nothing depends on another."""
        root = self.plan.root
        aws = self.programs.start(
            "aws",
            [*_module("aws.server"), "--data", root / "aws", "--python", self.plan.runtime_python],
            env=_environment(),
        )
        further = {"kube-scheduler": self.plan.scheduler_arguments}
        control_plane = ControlPlane(
            root, self.plan.cluster, self.plan.binaries, self.programs, self.record_step, further
        )
        control_plane.begin(authenticator=f"http://127.0.0.1:{self.listener.getsockname()[1]}/review")
        self.note(api_server=control_plane.endpoint.url, etcd=control_plane.etcd)
        pool = ThreadPoolExecutor(max_workers=1)
        account = pool.submit(self._prepare_account, aws, control_plane)
        pool.shutdown(wait=False)  # not waited for if another step fails first
        control_plane.populate()
        agent = self._start_agent(aws.wait_ready(), control_plane)
        control_plane.wait_ready()
        account.result()
        address = agent.wait_ready()
        self.record_step("node agent ready")
        self.note(state="ready", node_agent=address)

    def _start_agent(self, aws: str, control_plane: ControlPlane) -> Program:
        where = ["--aws", aws, "--kubeconfig", control_plane.kubeconfig, "--cluster", self.plan.cluster]
        return self.programs.start(
            "node-agent", [*_module("node_agent"), *where, *self.plan.agent_arguments], env=_environment(aws)
        )

    def _prepare_account(self, aws: Program, control_plane: ControlPlane) -> None:
        """Create what an account has before Joiner: a bootstrapped region, a network, an EKS cluster."""
        address = aws.wait_ready()
        self.note(aws=address)
        self.record_step("local AWS ready")
        self.authenticator = Authenticator(self.listener, self.plan.cluster, address, admin=control_plane.admin)
        self.authenticator.serve()
        cdk_bootstrap.prepare_account(address)
        seed_network(address, self.plan.cluster, version=kubernetes_version().rpartition(".")[0])
        endpoint = control_plane.endpoint
        where = {"endpoint": endpoint.url, "ca": endpoint.authority_data(), "serviceCidr": SERVICE_CIDR}
        turn_knob(address, "eks", {"name": self.plan.cluster, **where})
        self.record_step("account, network and EKS cluster ready")

    def watch(self) -> None:
        """Run until a program ends (raises) or a signal arrives (raises). Restarts the API server if requested."""
        while True:
            self.programs.check()
            if self.restart_requested.is_set():
                self.programs.restart("kube-apiserver", pause=RESTART_SECONDS)
                self.restart_requested.clear()
                self.record_step("API server started again")
            time.sleep(0.3)

    def end(self) -> None:
        self.programs.end(gently=GENTLY)
        if self.authenticator is not None:
            self.authenticator.close()


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", f"joiner_local.{name}"]


def _environment(address: str = "") -> dict[str, str]:
    """Return the environment without the user's AWS settings: these programs must never reach a real account."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return kept | ({"AWS_ENDPOINT_URL": address} if address else {})


def _end_with_stdin() -> None:
    """End this process when stdin ends, unless it was detached before."""
    if os.read(sys.stdin.fileno(), 1) != DETACH:
        os.kill(os.getpid(), signal.SIGTERM)


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - what signal handlers are given
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(0)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m joiner_local.stack.supervisor", description="one local stack, until SIGTERM"
    )
    parser.add_argument("--root", type=Path, required=True, help="the stack's folder, empty but for its own old files")
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--binaries", type=Path, required=True, help="folder with the programs of the control plane")
    parser.add_argument("--runtime-python", type=Path, required=True, help="interpreter of Lambda's managed runtime")
    for name, what in (("--agent", "argument for the node agent"), ("--scheduler", "flag of kube-scheduler")):
        parser.add_argument(name, action="append", default=[], metavar="WORD", help=f"one more {what}; repeatable")
    options = parser.parse_args(argv)
    plan = StackConfiguration(
        options.root.resolve(),
        options.cluster,
        Binaries(options.binaries),
        options.runtime_python,
        tuple(options.agent),
        tuple(options.scheduler),
    )
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    me = ProcessIdentity.of(os.getpid())
    assert me is not None, "this process is not running"
    record = StackRecord(cluster=plan.cluster, supervisor=me, started=datetime.now(UTC).isoformat(timespec="seconds"))
    supervisor = Supervisor(plan, Programs(plan.root / "log"), record)
    signal.signal(signal.SIGUSR1, lambda _number, _frame: supervisor.restart_requested.set())
    supervisor.note()
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        supervisor.start()
        supervisor.watch()
    except Exception as error:
        traceback.print_exc()
        supervisor.note(state="failed", error=str(error))
        sys.exit(1)
    finally:
        supervisor.end()


if __name__ == "__main__":
    main()
