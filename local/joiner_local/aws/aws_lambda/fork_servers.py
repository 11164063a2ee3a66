"""Fork the processes of sandboxes from a process that has imported the large libraries: imports are half of a cold
start.

There is one such process for each set of layers, because layers decide which libraries exist; see `forking_runtime`.
The knob `preload` names packages of layers whose modules are imported before the fork, too. Tests use it: then a cold
start takes a third of the computing that it takes on AWS.
"""

import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from joiner_local.stack.stack_processes import dies_with_parent

SCRIPT: Final = Path(__file__).parent / "forking_runtime.py"
LIBRARIES: Final = ("boto3", "aws_lambda_powertools", "msgspec")
"""Libraries that most functions import and that read nothing of the environment at import (the runtime client does)."""

ENDS_WITHIN: Final = 5.0

Parent = subprocess.Popen[bytes]


class ForkedProcess:
    """One forked process, with the part of `subprocess.Popen` that sandboxes need."""

    def __init__(self, pid: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout = stdout
        self._status: int | None = None
        self._ended = threading.Event()

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while the process runs."""
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status as `poll` returns it. Raises TimeoutExpired after that many seconds."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        assert self._status is not None
        return self._status

    def end(self, status: int) -> None:
        self._status = status
        self._ended.set()


class ForkServers:
    """The fork servers of all sandboxes of one server. Each starts with the first sandbox that has its layers."""

    def __init__(self, python: Path) -> None:
        self._python = python
        self._spawn = _Spawner()
        self._packages: tuple[str, ...] = ()
        self._parents: dict[tuple[str, ...], _Ancestor] = {}
        self._lock = threading.Lock()

    def __call__(
        self, command: Sequence[str], *, libraries: Sequence[Path], cwd: Path, env: Mapping[str, str]
    ) -> ForkedProcess:
        """Run ``python -S -m COMMAND``; `libraries` are the folders with the large libraries."""
        path = os.pathsep.join(map(str, libraries))
        with self._lock:
            key = (path, *self._packages)
            if key not in self._parents or self._parents[key].gone:
                self._parents[key] = _Ancestor(self._spawn, self._python, path, self._packages)
            parent = self._parents[key]
        return parent.fork({"command": list(command), "cwd": str(cwd), "environment": dict(env)})

    def preload(self, packages: tuple[str, ...]) -> None:
        """Import all modules of these packages before sandboxes are forked, from the next sandbox on."""
        with self._lock:
            self._packages = packages

    def close(self) -> None:
        """End all fork servers and their children."""
        with self._lock:
            for parent in self._parents.values():
                parent.close()


class _Ancestor:
    """One fork server."""

    def __init__(self, spawn: "_Spawner", python: Path, path: str, packages: tuple[str, ...]) -> None:
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking = threading.Lock()
        self._answers: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._children: dict[int, ForkedProcess] = {}
        self._unclaimed: dict[int, int] = {}
        self._known = threading.Lock()
        self.gone = False
        environment = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "LANG": "en_US.UTF-8"}
        with theirs:
            # -S: the managed runtime has no site-packages; see managed_runtime.
            wanted = (*LIBRARIES, *(f"{package}.*" for package in packages))
            self._process = spawn([str(python), "-S", str(SCRIPT), *wanted], environment, theirs.fileno())
        threading.Thread(target=self._listen, name="forks", daemon=True).start()

    def fork(self, asked: Mapping[str, Any]) -> ForkedProcess:
        """Fork a child. Raises BrokenPipeError if the fork server has ended."""
        mine, theirs = os.pipe()
        output = os.fdopen(mine, "rb")
        try:
            with self._asking:  # responses arrive in the order of requests
                socket.send_fds(self._door, [json.dumps(asked).encode()], [theirs])
                pid = self._answers.get()
        finally:
            os.close(theirs)
        if pid is None:
            raise BrokenPipeError("the process that forks sandboxes has ended")
        forked = ForkedProcess(pid, output)
        with self._known:
            self._children[pid] = forked
            if pid in self._unclaimed:
                self._children.pop(pid).end(self._unclaimed.pop(pid))
        return forked

    def _listen(self) -> None:
        while message := self._door.recv(4096):
            text = json.loads(message)
            if "pid" in text:
                self._answers.put(text["pid"])
                continue
            with self._known:
                if text["ended"] in self._children:
                    self._children.pop(text["ended"]).end(text["status"])
                else:  # the child ended before the fork server reported its start
                    self._unclaimed[text["ended"]] = text["status"]
        self.gone = True
        self._answers.put(None)
        with self._known:
            for child in self._children.values():
                child.end(-9)

    def close(self) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._process.wait(ENDS_WITHIN)


class _Spawner:
    """Start every process from one thread that never ends.

    The processes end with the server (PR_SET_PDEATHSIG). The kernel takes the forking *thread* for the parent, and
    threads that serve HTTP requests end with their request.
    """

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[tuple[Callable[[], Parent], queue.SimpleQueue[Parent | Exception]]] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._run, name="spawner", daemon=True).start()

    def __call__(self, command: Sequence[str], env: Mapping[str, str], stdin: int) -> Parent:
        def start() -> Parent:
            return subprocess.Popen(
                command,
                env=env,
                stdin=stdin,
                stdout=sys.stderr,
                start_new_session=True,
                preexec_fn=dies_with_parent(),  # noqa: PLW1509 - two system calls, no lock is taken in it
            )

        answer: queue.SimpleQueue[Parent | Exception] = queue.SimpleQueue()
        self._asked.put((start, answer))
        started = answer.get()
        if isinstance(started, Exception):
            raise started
        return started

    def _run(self) -> None:
        while True:
            start, answer = self._asked.get()
            try:
                answer.put(start())
            except Exception as error:
                answer.put(error)
