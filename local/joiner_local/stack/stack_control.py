"""Start, use and end a local stack.

    with LocalStack(Path(".local"), say=print) as stack:
        stack.deploy()
        stack.kube().get("/api/v1/nodes")

A stack is a supervisor process (`supervisor`) and the processes that it starts. Its files are in one folder, its root;
stacks with different roots run side by side. `LocalStack(root)` finds a stack that runs there already. A stack that
`start` has started ends with this process, however this process ends, unless `detach` was called.
"""

import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import urllib3

from joiner_local.aws.local_aws import REGION
from joiner_local.control_plane import control_plane_binaries, kube_api
from joiner_local.control_plane.kube_api import ApiError, KubeApi
from joiner_local.control_plane.kubeconfig import ApiServerEndpoint
from joiner_local.knob_client import knobs_of, turn_knob
from joiner_local.stack.cdk_deployment import Deployment
from joiner_local.stack.stack_processes import ProcessIdentity, end, session_members, tail
from joiner_local.stack.stack_record import DETACH, NAME, StackRecord
from joiner_local.tooling import runtime_python
from joiner_local.tooling.command_progress import Say

if TYPE_CHECKING:
    import boto3

REPOSITORY: Final = Path(__file__).parents[3]
CLUSTER: Final = "joiner-demo"
AGENT: Final = "agent/"
KEY: Final = "test"  # access key and secret of the local AWS only
START_LIMIT: Final = 120.0


class StackFailed(RuntimeError):
    """The stack could not be started or used; the message has the remedy, or ends with the log."""


def _silent(line: str) -> None: ...


def _nothing() -> None: ...


@dataclass(slots=True)
class LocalStack:
    """`boot_seconds` is the time from an instance's launch to its node's registration; None uses the node agent's
    default. `scheduler_arguments` are further flags of kube-scheduler.
    """

    root: Path
    cluster: str = CLUSTER
    boot_seconds: float | None = None
    say: Say = _silent
    scheduler_arguments: tuple[str, ...] = ()
    _supervisor: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.root = Path(os.path.realpath(self.root))  # Path.resolve raises an error for a link to itself

    # --- start and end ---

    def record(self) -> StackRecord | None:
        """Return the record of the stack, whether the stack runs or not."""
        return StackRecord.read(self.root)

    @property
    def is_running(self) -> bool:
        record = self.record()
        return record is not None and record.state == "ready" and record.supervisor.lives()

    def start(self, *, meanwhile: Callable[[], None] = _nothing) -> Self:
        """Start the stack and wait until it is ready. Files of an earlier stack in the root are deleted. `meanwhile`
        runs while programs start.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        self._refuse_a_second_stack()
        venv = Path(sys.prefix)
        programs = control_plane_binaries.find_or_build(venv, self.say)
        runtime = runtime_python.own(self.say)
        self.stop()
        self._sweep()
        self._supervisor = self._start_supervisor(programs, runtime)
        try:
            meanwhile()
            self._wait_ready(self._supervisor)
        except BaseException:
            self.stop()
            raise
        self._write_environment(programs)
        return self

    def _refuse_a_second_stack(self) -> None:
        record = self.record()
        if record is not None and record.supervisor.lives():
            if record.state == "starting":
                raise StackFailed(
                    f"a stack is starting in {self.root} (process {record.supervisor.pid}): wait until it is ready"
                )
            raise StackFailed(
                f"a stack already runs in {self.root} (process {record.supervisor.pid}): `joiner local down` ends it"
            )

    def _start_supervisor(self, programs: control_plane_binaries.Binaries, runtime: Path) -> "subprocess.Popen[bytes]":
        command: list[object] = [
            sys.executable,
            "-m",
            "joiner_local.stack.supervisor",
            "--root",
            self.root,
            "--cluster",
            self.cluster,
        ]
        command += ["--binaries", programs.folder, "--runtime-python", runtime]
        if self.boot_seconds is not None:
            command += [f"--agent={word}" for word in ("--boot-seconds", str(self.boot_seconds))]
        command += [f"--scheduler={word}" for word in self.scheduler_arguments]
        with self._log_file.open("wb") as log:
            # A session of its own: Ctrl-C reaches this process, which ends the stack in order, and `stop` finds all
            # processes.
            return subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=REPOSITORY,
            )

    def detach(self) -> None:
        """Let the stack continue after this process has ended."""
        if self._supervisor is not None and self._supervisor.stdin is not None and not self._supervisor.stdin.closed:
            self._supervisor.stdin.write(DETACH)
            self._close_stdin()

    def stop(self) -> bool:
        """End every process of the stack, also if its supervisor was killed. False if there was nothing to end."""
        record = self.record()
        leader = record.supervisor if record else ProcessIdentity.of(self._supervisor.pid) if self._supervisor else None
        members = session_members(leader) if leader else []
        if leader and members:
            leader.signal(signal.SIGTERM)  # the supervisor ends its programs in order; the rest is ended afterwards
            self._reap(4.0)
            end(lambda: session_members(leader), patience=4.0)
        self._reap(1.0)
        (self.root / NAME).unlink(missing_ok=True)
        (self.root / "env").unlink(missing_ok=True)
        return bool(members)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _log_file(self) -> Path:
        return self.root / "log" / "supervisor.log"

    def _sweep(self) -> None:
        """Delete files of an earlier stack, but not the synthesis, which may already run for this start."""
        for name in ("etcd", "aws", "pki"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        self.outputs_file.unlink(missing_ok=True)
        (self.root / "log").mkdir(parents=True, exist_ok=True)
        for log in (self.root / "log").iterdir():
            if log.name != "synth.log":
                log.unlink()

    def _wait_ready(self, supervisor: "subprocess.Popen[bytes]") -> None:
        reported, deadline = 0, time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            ended = supervisor.poll() is not None
            record = self.record()
            if record is not None:
                for step in record.steps[reported:]:
                    self.say(f"{step.seconds:5.1f} s  {step.what}")
                reported = len(record.steps)
                if record.state == "ready":
                    return
                if record.state == "failed":
                    raise StackFailed(f"the stack did not start: {record.error}")
            if ended:
                raise StackFailed(f"the stack did not start; the end of {self._log_file}:\n{tail(self._log_file)}")
            time.sleep(0.03)
        raise StackFailed(f"the stack was not ready after {START_LIMIT:.0f} s; see {self.root / 'log'}")

    def _reap(self, seconds: float) -> None:
        """Wait for the end of the supervisor, if this process started it."""
        if self._supervisor is not None:
            with suppress(subprocess.TimeoutExpired):
                self._supervisor.wait(seconds)
                self._close_stdin()
                self._supervisor = None

    def _close_stdin(self) -> None:
        if self._supervisor is not None and self._supervisor.stdin is not None:
            with suppress(BrokenPipeError):
                self._supervisor.stdin.close()

    # --- use ---

    @property
    def known(self) -> StackRecord:
        """The record of the running stack. Raises StackFailed if it does not run."""
        record = self.record()
        if record is None or record.state != "ready" or not record.supervisor.lives():
            reason = record.error if record and record.error else "nothing runs"
            raise StackFailed(f"no stack is ready in {self.root} ({reason}): `joiner local up` starts one")
        return record

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def outputs_file(self) -> Path:
        return self.root / "outputs.json"

    @property
    def endpoint(self) -> ApiServerEndpoint:
        return ApiServerEndpoint(self.known.api_server, self.root / "pki" / "ca.crt")

    def kube(self) -> KubeApi:
        """Return a client of the API server as its administrator."""
        return kube_api.admin(self.endpoint, self.root / "pki")

    def session(self, key: str = KEY, secret: str = KEY, token: str | None = None) -> "boto3.Session":
        """Return a boto3 session in the stack's region, by default as its root user. Its clients need the endpoint; see
        `client`.
        """
        from joiner_local.aws_sessions import aws_session

        return aws_session(key, secret, token)

    def client(self, service: str) -> Any:
        """Return a boto3 client of the local AWS."""
        # the name of any service
        return self.session().client(service, endpoint_url=self.known.aws)  # type: ignore[call-overload]

    def knob(self, name: str, request: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Call a knob of the local AWS (`POST /_local/NAME`)."""
        return turn_knob(self.known.aws, name, request or {})

    def agent_knob(self, name: str, request: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Call a knob of the node agent: `boot`, `faults`, `instances`."""
        return turn_knob(self.known.node_agent, name, request or {})

    def knobs(self) -> list[str]:
        """Return the names of all knobs; those of the node agent begin with `agent/`."""
        own, agents = (knobs_of(address) for address in (self.known.aws, self.known.node_agent))
        return [*own, *(f"{AGENT}{name}" for name in agents)]

    def fire_sweep(self) -> dict[str, Any]:
        """Run the sweep's schedule now."""
        aws = self.known.aws
        return turn_knob(aws, "schedules/fire", {"name": self.outputs()["SweepScheduleName"]})

    def restart_api_server(self) -> None:
        """End the API server and start it again, with what etcd has; returns when it answers."""
        record, kube = self.known, self.kube()
        record.supervisor.signal(signal.SIGUSR1)
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            if len(self.known.steps) > len(record.steps):
                with suppress(ApiError, urllib3.exceptions.HTTPError):
                    kube.get("/readyz", timeout=2)
                    return
            time.sleep(0.1)
        raise StackFailed(f"the API server did not start again within {START_LIMIT:.0f} s; see {self.root / 'log'}")

    def deploy(self, deployment: Deployment | None = None) -> dict[str, str]:
        """Deploy this app with the CDK. Returns its outputs by name. A deployment whose synthesis already runs may be
        given.
        """
        deployment = deployment or Deployment(REPOSITORY, self.root, say=self.say)
        environment = self.environment()
        with self._deploying():
            return deployment.deploy(environment)

    @contextmanager
    def _deploying(self) -> Iterator[None]:
        """Hold the deployment lock: deployments share files, and CloudFormation accepts one operation at a time."""
        with (self.root / "deployment.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released with its process
            except BlockingIOError as error:
                raise StackFailed(
                    f"a deployment into the stack in {self.root} is under way: wait until it has ended"
                ) from error
            yield

    def outputs(self) -> dict[str, str]:
        """Return the outputs of the last deployment."""
        if not self.outputs_file.exists():
            raise StackFailed(f"nothing is deployed in {self.root}: `joiner local up` deploys")
        stacks: dict[str, dict[str, str]] = json.loads(self.outputs_file.read_text())
        return {name: value for outputs in stacks.values() for name, value in outputs.items()}

    def environment(self) -> dict[str, str]:
        """Return the environment variables with which AWS tools and kubectl use this stack."""
        return {
            "KUBECONFIG": str(self.kubeconfig),
            "AWS_ENDPOINT_URL": self.known.aws,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_EC2_METADATA_DISABLED": "true",
            "JOINER_CLUSTER": self.cluster,
        }

    def _write_environment(self, programs: control_plane_binaries.Binaries) -> None:
        lines = [f"{name}={shlex.quote(value)}" for name, value in self.environment().items()]
        # The joiner command, and a kubectl of the cluster's own version: the machine's may be too old for it
        path = ":".join(shlex.quote(str(folder)) for folder in (Path(sys.prefix) / "bin", programs.folder))
        lines.append(f"PATH={path}:$PATH")
        (self.root / "env").write_text("\n".join(lines) + "\n")
