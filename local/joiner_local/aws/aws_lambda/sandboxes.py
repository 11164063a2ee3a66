"""Run deployed functions in execution environments, each of them ``awslambdaric HANDLER`` with a Runtime API of its
own.

A sandbox serves one invocation at a time, stays warm between them, and ends with the server. This module does not know
how functions are stored; `sandbox_pool` chooses the sandbox of an invocation.
"""

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from joiner_local.aws.aws_lambda.cpu_shares import LOOKS, CpuLimit, CpuShares, cpu_seconds
from joiner_local.aws.aws_lambda.runtime_api import Invocation, RuntimeApi, failure
from joiner_local.aws.aws_lambda.runtime_interpreters import RuntimeInterpreter, RuntimeInterpreters
from joiner_local.aws.local_aws import REGION

INIT_LIMIT = 10.0  # seconds, Lambda's own for the init phase
IDLE = 300.0  # seconds until an unused sandbox is retired
OLDEST = 3300.0  # seconds: the credentials given to a sandbox last an hour
PROC_STATUS = 4096  # bytes, more than /proc/PID/status has
MEMORY_LOOKS = 0.25  # seconds between two readings of an invocation's memory; one at its end finds the peak
SIGNALS = {
    signal.SIGKILL: "killed",
    signal.SIGSEGV: "segmentation fault",
    signal.SIGTERM: "terminated",
    signal.SIGABRT: "aborted",
}


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """All that determines a sandbox of a function; when it changes, sandboxes are replaced. Times are in seconds."""

    arn: str
    name: str
    version: str
    _: KW_ONLY
    handler: str
    runtime: str
    timeout: float
    memory_mb: int
    role: str
    code: Path  # Lambda's /var/task
    layers: Path | None  # Lambda's /opt
    environment: tuple[tuple[str, str], ...]
    log_group: str
    concurrency: int = field(default=1000, compare=False)  # reserved, or the account's


@dataclass(frozen=True, slots=True)
class InvocationResult:
    """The end of an invocation. `error` is the header X-Amz-Function-Error; then the payload describes the error."""

    request_id: str
    version: str
    payload: bytes
    error: str | None
    log: str
    duration_ms: float
    cpu_seconds: float
    """CPU time of the sandbox since its last invocation; for the first one with its start."""


@dataclass(frozen=True, slots=True)
class SandboxEnvironment:
    """What every sandbox gets: an interpreter, a folder for its /tmp, variables of the account, the receiver of its log
    lines, and whether it has the CPU of its memory only.
    """

    interpreters: RuntimeInterpreters
    scratch: Path
    variables: Callable[[FunctionSpec], Mapping[str, str]]
    on_line: Callable[[FunctionSpec, str, str], None]
    cpu_shares: CpuShares = field(default_factory=CpuShares)


class Sandbox:
    def __init__(self, spec: FunctionSpec, around: SandboxEnvironment) -> None:
        self.spec = spec
        self.log_stream = time.strftime("%Y/%m/%d/", time.gmtime()) + f"[{spec.version}]{uuid.uuid4().hex}"
        self.created = self.last_used = time.monotonic()
        self.closed = False
        self._around = around
        self._interpreter: RuntimeInterpreter = around.interpreters.of(spec.runtime)
        self._lines: list[str] = []
        self._lock = threading.Lock()
        self.api = RuntimeApi(spec.timeout)
        self._out_of_memory = False
        self._used_mb = 0  # the peak, as of the last reading
        self._cpu_seconds = 0.0  # as of the end of the last invocation
        self._folder = Path(tempfile.mkdtemp(dir=around.scratch))
        packages = self._interpreter.packages
        self._line(f"INIT_START Runtime Version: python:{self._interpreter.version}{self._instead()}")
        self._process = self._interpreter.fork(
            ["awslambdaric", spec.handler],
            libraries=[*self._layers(), packages],
            cwd=spec.code,
            env=self._environment(),
        )
        self._reader = threading.Thread(target=self._read, name=f"log-{spec.name}", daemon=True)
        self._reader.start()
        threading.Thread(target=self._watch, name=f"watch-{spec.name}", daemon=True).start()

    def _environment(self) -> dict[str, str]:
        spec, folder = self.spec, str(self._folder)
        path = [spec.code, *self._layers(), self._interpreter.packages]
        return {
            "PATH": f"{self._interpreter.python.parent}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "TMPDIR": folder,
            "HOME": folder,
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "AWS_LAMBDA_RUNTIME_API": self.api.address,
            "_HANDLER": spec.handler,
            "LAMBDA_TASK_ROOT": str(spec.code),
            "LAMBDA_RUNTIME_DIR": str(self._interpreter.packages),
            "AWS_LAMBDA_FUNCTION_NAME": spec.name,
            "AWS_LAMBDA_FUNCTION_VERSION": spec.version,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(spec.memory_mb),
            "AWS_LAMBDA_LOG_GROUP_NAME": spec.log_group,
            "AWS_LAMBDA_LOG_STREAM_NAME": self.log_stream,
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{spec.runtime}",
            "AWS_EC2_METADATA_DISABLED": "true",
            **self._around.variables(spec),
            **dict(spec.environment),
        }

    def _instead(self) -> str:
        wanted = self.spec.runtime.removeprefix("python")
        return "" if self._interpreter.version.startswith(f"{wanted}.") else f" (this machine has no Python {wanted})"

    def _layers(self) -> list[Path]:
        opt = self.spec.layers
        return [opt / "python/lib" / self.spec.runtime / "site-packages", opt / "python"] if opt is not None else []

    @property
    def usable(self) -> bool:
        now = time.monotonic()
        return not self.closed and now - self.last_used < IDLE and now - self.created < OLDEST

    def invoke(self, payload: bytes, request_id: str, client_context: str | None) -> InvocationResult:
        cold = not self.api.ready.is_set()
        work = Invocation(request_id, payload, self.spec.arn, client_context)
        with self._lock:
            self._lines.clear()
        self._line(f"START RequestId: {request_id} Version: {self.spec.version}")
        self._perform(work)
        self.last_used = time.monotonic()
        duration = (self.last_used - (work.started or self.last_used)) * 1000
        init = (self.api.ready_at - self.created) * 1000 if cold and self.api.ready_at else 0.0
        self._line(f"END RequestId: {request_id}")
        self._line(
            f"REPORT RequestId: {request_id}\tDuration: {duration:.2f} ms\tBilled Duration: "
            f"{int(duration + init) + 1} ms\t"
            f"Memory Size: {self.spec.memory_mb} MB\tMax Memory Used: {min(self._used_mb, self.spec.memory_mb)} MB"
            + (f"\tInit Duration: {init:.2f} ms" if init else "")
            + ("\tStatus: error\tError Type: Runtime.OutOfMemory" if self._out_of_memory else "")
        )
        with self._lock:
            log = "\n".join(self._lines)
        failed = work.error is not None
        return InvocationResult(
            request_id,
            self.spec.version,
            work.error or b"" if failed else work.response,
            "Unhandled" if failed else None,
            log,
            duration,
            self._used_cpu(),
        )

    def _used_cpu(self) -> float:
        """Return the CPU time of the process and its threads since the last call; 0 if the process ended."""
        if (used := cpu_seconds(self._process.pid)) is None:
            return 0.0
        before, self._cpu_seconds = self._cpu_seconds, used
        return used - before

    def _perform(self, work: Invocation) -> None:
        self.api.current = work
        if not self.api.ready.is_set() and not self._within_memory(self.api.ready, INIT_LIMIT + self.spec.timeout):
            self._time_out(work)
        elif self._out_of_memory:
            self._run_out_of_memory(work)
        elif self.api.init_error is not None:
            work.fail(self.api.init_error)
            self._process.wait(5)
            self.kill()
        elif self.closed:
            work.fail(
                failure("Runtime.ExitError", f"RequestId: {work.request_id} Error: Runtime exited before serving")
            )
        else:
            limit = CpuLimit(self._process.pid, self.spec.memory_mb) if self._around.cpu_shares.on else None
            self.api.give(work)
            in_time = self._within_memory(work.done, self.spec.timeout + 0.02, limit)
            if limit is not None:
                limit.end()
            if not in_time:
                self._time_out(work)
            elif self._out_of_memory:
                self._run_out_of_memory(work)
            elif self._process.poll() is None:
                time.sleep(0.001)  # the last lines leave the pipe

    def _within_memory(self, event: threading.Event, seconds: float, limit: CpuLimit | None = None) -> bool:
        """Wait for the event or for too much memory; False if neither comes in time. Meanwhile `limit` limits the CPU.

        The kernel records the most memory that the process had resident (VmHWM), so use between two readings counts as
        well.
        """
        until = time.monotonic() + seconds
        while True:
            settled = _wait(event, min(MEMORY_LOOKS, max(0.0, until - time.monotonic())), limit)
            self._used_mb = self._peak_mb() or self._used_mb
            self._out_of_memory = self._out_of_memory or self._used_mb > self.spec.memory_mb
            if settled or self._out_of_memory:
                return True
            if time.monotonic() >= until:
                return False

    def _run_out_of_memory(self, work: Invocation) -> None:
        """End the function as Lambda does when it exceeds MemorySize, even if it has just responded."""
        work.kill(
            failure(
                "Runtime.ExitError", f"RequestId: {work.request_id} Error: Runtime exited with error: signal: killed"
            )
        )
        self._line(f"RequestId: {work.request_id} Error: Runtime exited with error: signal: killed")
        self.kill()

    def _time_out(self, work: Invocation) -> None:
        answer = f"Task timed out after {self.spec.timeout:.2f} seconds"
        work.fail(failure("Sandbox.Timedout", f"RequestId: {work.request_id} Error: {answer}"))
        self._line(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {work.request_id} {answer}")
        self.kill()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            # the runtime client joins the lines of a traceback with \r
            self._line(raw.decode("utf-8", "replace").rstrip("\n").replace("\r", "\n"))

    def _line(self, line: str) -> None:
        with self._lock:
            self._lines.append(line)
        self._around.on_line(self.spec, self.log_stream, line)

    def _watch(self) -> None:
        """Fail the invocation when its process ends."""
        status = self._process.wait()
        self._reader.join(1)
        self.closed = True
        self.api.ready.set()
        work = self.api.current
        if work is not None:
            why = f"exit status {status}" if status >= 0 else f"signal: {_signal(-status)}"
            work.fail(
                failure("Runtime.ExitError", f"RequestId: {work.request_id} Error: Runtime exited with error: {why}")
            )

    def _peak_mb(self) -> int:
        """Return the most memory that the process had resident; 0 if it has ended."""
        try:
            with Path(f"/proc/{self._process.pid}/status").open("rb", buffering=0) as status:
                _, _, found = status.read(PROC_STATUS).partition(b"VmHWM:")
        except OSError:
            return 0
        return int(found.split(maxsplit=1)[0]) // 1024 if found else 0

    def kill(self) -> None:
        self.closed = True
        self.api.retire()
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        threading.Thread(target=self._clean_up, name="clean-up", daemon=True).start()

    def _clean_up(self) -> None:
        self._process.wait()
        self.api.close()
        self.forget_folder()

    def forget_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _wait(event: threading.Event, seconds: float, limit: CpuLimit | None) -> bool:
    """Wait for the event; return whether it came in this time."""
    if limit is None:
        return event.wait(seconds)
    until = time.monotonic() + seconds
    while not event.wait(LOOKS):
        limit.look()
        if time.monotonic() >= until:
            return False
    return True


def _signal(number: int) -> str:
    """Return Lambda's name of a signal.

    >>> _signal(9), _signal(1)
    ('killed', 'hup')
    """
    return SIGNALS.get(signal.Signals(number)) or signal.Signals(number).name.removeprefix("SIG").lower()
