"""`python -S forking_runtime.py MODULES`: import the modules that functions import anyway, and fork a process for each
sandbox. `PACKAGE.*` stands for all modules of a package.

It runs in the interpreter of Lambda's runtime, so nothing of this project can be imported here. Standard input is a
socket of messages. Each request is ``{"command", "cwd", "environment"}`` in JSON with a descriptor that becomes the
child's output; the response is ``{"pid"}``, and ``{"ended", "status"}`` follows when the child ends, with the status as
`subprocess` has it. When the socket ends, this process ends, and the kernel ends its children. Only libraries are
imported before the fork: a function's own modules are imported in its sandbox, as on AWS.
"""

import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import random
import runpy
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

LARGEST = 1 << 20  # bytes of a request
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def main(modules: Sequence[str]) -> None:
    for module in modules:
        for name in _names(module):
            with contextlib.suppress(Exception):  # the function that needs it reports why
                importlib.import_module(name)
    own = set(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    standard = [folder for folder in sys.path[1:] if folder not in own]
    gc.freeze()  # pages that no process writes stay shared
    door = socket.socket(fileno=os.dup(0))
    ended, answer = os.pipe()
    os.set_blocking(answer, False)
    signal.set_wakeup_fd(answer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([door.fileno(), ended], [], [])[0]
        if ended in ready:
            os.read(ended, 1024)
            _report_exits(door)
        if door.fileno() in ready:
            message, output, _, _ = socket.recv_fds(door, LARGEST, 1)
            if not message:
                return
            asked, me = json.loads(message), os.getpid()
            pid = os.fork()
            if pid == 0:
                try:
                    _die_with(me)
                    _become(asked, output[0], standard)
                except BaseException:
                    sys.excepthook(*sys.exc_info())
                finally:
                    os._exit(1)
            with contextlib.suppress(PermissionError, ProcessLookupError):
                os.setpgid(pid, pid)  # before its id is reported: the caller may kill the whole group
            os.close(output[0])
            door.send(json.dumps({"pid": pid}).encode())


def _names(module: str) -> Iterator[str]:
    """Return the name of the module, or of all modules of `PACKAGE.*`; none if there is no such package."""
    package = module.removesuffix(".*")
    yield package
    if package != module and package in sys.modules:
        folders = sys.modules[package].__path__
        yield from (each.name for each in pkgutil.walk_packages(folders, f"{package}.", onerror=lambda _: None))


def _report_exits(door: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while (dead := os.waitpid(-1, os.WNOHANG))[0]:
            door.send(json.dumps({"ended": dead[0], "status": os.waitstatus_to_exitcode(dead[1])}).encode())


def _die_with(parent: int) -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended between fork and prctl
        os._exit(1)


def _become(asked: dict[str, Any], output: int, standard: list[str]) -> None:
    """Do what `python -S -m MODULE ARGUMENTS` does, with this environment and output."""
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.closerange(3, 256)
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    random.seed()
    os.chdir(asked["cwd"])
    module, *arguments = asked["command"]
    sys.path[:] = [asked["cwd"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *standard]
    sys.argv[:] = [module, *arguments]
    # unbuffered, as with -u
    sys.stdout = io.TextIOWrapper(open(1, "wb", 0, closefd=False), encoding="utf-8", write_through=True)  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(open(2, "wb", 0, closefd=False), encoding="utf-8", write_through=True)  # noqa: SIM115
    importlib.invalidate_caches()
    status = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
