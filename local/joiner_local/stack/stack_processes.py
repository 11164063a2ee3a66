"""Start, watch and end the programs of a stack, so that none remains, however the stack ends.

There are three mechanisms. A program ends with the thread that started it (Linux: PR_SET_PDEATHSIG, which belongs to
the forking *thread*, so every program is started by a main thread that stays). All programs of a stack are in one
session, so a later process finds them even if the process that started them was killed. A process is identified by
number *and* start time, so that a reused number is never signalled.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
PROC = Path("/proc")
READY = "ready "


class ProgramFailed(RuntimeError):
    """A program ended, or did not become ready; the message has its name, its exit code, and the end of its log."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process; `identity` is the machine's boot id and the process's start time, as the kernel reports them."""

    pid: int
    identity: str

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity | None":
        """Return the process that has this number now; None if there is none, or only a zombie."""
        if not PROC.exists():  # not Linux: `ps` knows the start time to the second
            answer = subprocess.run(
                ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
            ).stdout.strip()
            return cls(pid, answer.split(None, 1)[1]) if answer and not answer.startswith("Z") else None
        stat = _stat(pid)
        return None if stat is None or stat.state == "Z" else cls(pid, f"{_boot_id()}/{stat.started}")

    def lives(self) -> bool:
        return ProcessIdentity.of(self.pid) == self

    def signal(self, number: signal.Signals) -> None:
        if self.lives():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    session: int
    started: int  # clock ticks since boot


def _stat(pid: int) -> _Stat | None:
    """Parse `/proc/PID/stat`. The command name is free text in brackets, so fields are counted from the last
    bracket.
    """
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return _Stat(state=fields[0], session=int(fields[3]), started=int(fields[19]))


def _boot_id() -> str:
    with suppress(OSError):
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return "unknown"


def session_members(leader: ProcessIdentity) -> list[ProcessIdentity]:
    """Return the living processes of the session that `leader` opened, including the leader.

    The kernel reuses no number that a session still has; so if another process has the number, the whole session has
    ended.
    """
    current = ProcessIdentity.of(leader.pid)
    if current is not None and current != leader:
        return []
    if not PROC.exists():
        pids = [
            int(p)
            for p in subprocess.run(
                ["pgrep", "-g", str(leader.pid)], capture_output=True, text=True, check=False
            ).stdout.split()
        ]
    elif leader.identity.partition("/")[0] == _boot_id():
        pids = [pid for pid in _pids() if (stat := _stat(pid)) is not None and stat.session == leader.pid]
    else:
        pids = []  # the machine was restarted since
    return [member for pid in pids if (member := ProcessIdentity.of(pid)) is not None]


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())


def end(find: Callable[[], Sequence[ProcessIdentity]], *, patience: float = 5.0) -> None:
    """Send SIGTERM to all processes of `find`, then SIGKILL; returns when none is left."""
    for member in find():
        member.signal(signal.SIGTERM)
    deadline = time.monotonic() + patience
    while members := find():
        if time.monotonic() > deadline:
            for member in members:
                member.signal(signal.SIGKILL)
        if time.monotonic() > deadline + 10:
            raise ProgramFailed(f"still running after SIGKILL: {[member.pid for member in members]}")
        time.sleep(0.02)


def dies_with_parent() -> Callable[[], None] | None:
    """For `preexec_fn`: SIGKILL to the child when the thread that starts it ends. None on kernels without this
    feature.
    """
    if sys.platform != "linux":
        return None
    libc, parent = ctypes.CDLL(None), os.getpid()

    def in_child() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended between fork and prctl
            os._exit(1)

    return in_child


@dataclass(slots=True)
class Program:
    """A started program and its log, which gets stdout and stderr."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path
    command: Sequence[object]
    env: Mapping[str, str] | None = None

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[object],
        *,
        log: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> "Program":
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        return cls(name, _started(command, log, cwd, env), log, command, env)

    def restart(self, *, pause: float = 0.0) -> None:
        """End the program with SIGTERM and start the same command again after `pause` seconds; the log continues."""
        self.end(gently=True)
        time.sleep(pause)
        self.process = _started(self.command, self.log, None, self.env)

    def check(self) -> None:
        """Raise ProgramFailed if the program has ended."""
        if (code := self.process.poll()) is not None:
            raise ProgramFailed(f"{self.name} ended with {code}; the end of {self.log}:\n{tail(self.log)}")

    def wait_ready(self, *, limit: float = 60.0) -> str:
        """Wait for a line that begins with `ready `, and return its rest: our own programs print their address so."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            for line in self.log.read_text(errors="replace").splitlines(keepends=True):
                if line.startswith(READY) and line.endswith("\n"):
                    return line.removeprefix(READY).strip()
            self.check()
            time.sleep(0.02)
        raise ProgramFailed(f"{self.name} was not ready after {limit:.0f} s; the end of {self.log}:\n{tail(self.log)}")

    def end(self, *, gently: bool, patience: float = 4.0) -> None:
        """End the program. `gently` sends SIGTERM; programs without state are killed at once."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM if gently else signal.SIGKILL)
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def _started(
    command: Sequence[object], log: Path, cwd: Path | None, env: Mapping[str, str] | None
) -> "subprocess.Popen[bytes]":
    with log.open("ab") as sink:
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, cwd=cwd, env=env,
            # two system calls, no lock and no allocation between fork and exec
            preexec_fn=dies_with_parent(),  # noqa: PLW1509
        )  # fmt: skip


@dataclass(slots=True)
class Programs:
    """The programs of one stack, in the order of their start; their logs are in one folder."""

    logs: Path
    running: list[Program] = field(default_factory=list)

    def start(self, name: str, command: Sequence[object], *, env: Mapping[str, str] | None = None) -> Program:
        program = Program.start(name, command, log=self.logs / f"{name}.log", env=env)
        self.running.append(program)
        return program

    def restart(self, name: str, *, pause: float) -> None:
        """Restart the program of that name; see `Program.restart`."""
        next(program for program in self.running if program.name == name).restart(pause=pause)

    def check(self) -> None:
        """Raise ProgramFailed if any has ended."""
        for program in self.running:
            program.check()

    def end(self, *, gently: Container[str] = ()) -> None:
        """End the programs, the last started first."""
        while self.running:
            program = self.running.pop()
            program.end(gently=program.name in gently)


def tail(log: Path, *, lines: int = 15) -> str:
    """Return the end of a log, for an error message."""
    try:
        return "\n".join(f"  {line}" for line in log.read_text(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return f"  ({error})"
