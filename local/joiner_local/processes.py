"""Programs of the stack: started, watched and ended so that none outlives it, however it ends.

Three nets, one below the other. A program dies with the thread that started it (Linux: PR_SET_PDEATHSIG, which belongs to the forking
*thread*, so every program is started by a main thread that stays). All programs of a stack live in one session, so that whoever
comes later finds them even if their starter was killed. And a process is known by number *and* start time, so that a number given to
somebody else is never signalled.
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
    """A program ended, or did not get ready: says which, how, and the end of its log."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for good: `born` is the machine's boot and the process's start time, in the kernel's own words."""

    pid: int
    born: str

    @classmethod
    def of(cls, pid: int) -> "Identity | None":
        """Who has this number now; None if nobody has, or only a zombie."""
        if not PROC.exists():  # not Linux: `ps` knows the start time to the second
            answer = subprocess.run(
                ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
            ).stdout.strip()
            return cls(pid, answer.split(None, 1)[1]) if answer and not answer.startswith("Z") else None
        stat = _stat(pid)
        return None if stat is None or stat.state == "Z" else cls(pid, f"{_boot_id()}/{stat.started}")

    def lives(self) -> bool:
        return Identity.of(self.pid) == self

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
    """`/proc/PID/stat`; the command name in it is free text in brackets, so fields are counted from the last bracket."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return _Stat(state=fields[0], session=int(fields[3]), started=int(fields[19]))


def _boot_id() -> str:
    with suppress(OSError):
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return "unknown"


def session_members(leader: Identity) -> list[Identity]:
    """Whoever still lives in the session that `leader` opened, the leader included.

    The kernel gives a number to nobody else while a session carries it; so if the number has a new owner, ours are all gone.
    """
    current = Identity.of(leader.pid)
    if current is not None and current != leader:
        return []
    if not PROC.exists():
        pids = [
            int(p) for p in subprocess.run(["pgrep", "-g", str(leader.pid)], capture_output=True, text=True, check=False).stdout.split()
        ]
    elif leader.born.partition("/")[0] == _boot_id():
        pids = [pid for pid in _pids() if (stat := _stat(pid)) is not None and stat.session == leader.pid]
    else:
        pids = []  # the machine was started again since
    return [member for pid in pids if (member := Identity.of(pid)) is not None]


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())


def end(find: Callable[[], Sequence[Identity]], *, patience: float = 5.0) -> None:
    """Ask all that `find` gives to end, then insist; returns when nobody is left."""
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
    """For `preexec_fn`: SIGKILL to the child when the thread that starts it ends. None where the kernel has no such thing."""
    if sys.platform != "linux":
        return None
    libc, parent = ctypes.CDLL(None), os.getpid()

    def in_child() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died between fork and prctl
            os._exit(1)

    return in_child


@dataclass(slots=True)
class Program:
    """A started program and its log, to which stdout and stderr go."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    @classmethod
    def start(
        cls, name: str, command: Sequence[object], *, log: Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> "Program":
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, cwd=cwd, env=env,
                preexec_fn=dies_with_parent(),  # noqa: PLW1509 - two system calls, no lock and no allocation between fork and exec
            )  # fmt: skip
        return cls(name, process, log)

    def check(self) -> None:
        """Raise if it has ended."""
        if (code := self.process.poll()) is not None:
            raise ProgramFailed(f"{self.name} ended with {code}; the end of {self.log}:\n{tail(self.log)}")

    def wait_ready(self, *, limit: float = 60.0) -> str:
        """What it says after `ready ` on a line of its own: how our own programs tell that they listen, and where."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            for line in self.log.read_text(errors="replace").splitlines(keepends=True):
                if line.startswith(READY) and line.endswith("\n"):
                    return line.removeprefix(READY).strip()
            self.check()
            time.sleep(0.02)
        raise ProgramFailed(f"{self.name} was not ready after {limit:.0f} s; the end of {self.log}:\n{tail(self.log)}")

    def end(self, *, gently: bool, patience: float = 4.0) -> None:
        """Gently is SIGTERM, which some answer by finishing long requests; what holds nothing worth keeping is killed at once."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM if gently else signal.SIGKILL)
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@dataclass(slots=True)
class Programs:
    """Those of one stack, in the order of their start; their logs lie in one folder."""

    logs: Path
    running: list[Program] = field(default_factory=list)

    def start(self, name: str, command: Sequence[object], *, env: Mapping[str, str] | None = None) -> Program:
        program = Program.start(name, command, log=self.logs / f"{name}.log", env=env)
        self.running.append(program)
        return program

    def check(self) -> None:
        """Raise if any has ended."""
        for program in self.running:
            program.check()

    def end(self, *, gently: Container[str] = ()) -> None:
        """Last started, first ended."""
        while self.running:
            program = self.running.pop()
            program.end(gently=program.name in gently)


def tail(log: Path, *, lines: int = 15) -> str:
    """The end of a log, for an error message."""
    try:
        return "\n".join(f"  {line}" for line in log.read_text(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return f"  ({error})"
