"""Choose the Python for a function's runtime: the version that the runtime names if this machine has it, else the
stack's own.
"""

import threading
from dataclasses import dataclass
from pathlib import Path

from joiner_local.aws.aws_lambda.fork_servers import ForkServers
from joiner_local.aws.aws_lambda.managed_runtime import managed_packages
from joiner_local.tooling import runtime_python


@dataclass(frozen=True, slots=True)
class RuntimeInterpreter:
    """One Python with Lambda's managed packages; `version` is like ``3.13.0``."""

    python: Path
    packages: Path
    fork: ForkServers
    version: str


class RuntimeInterpreters:
    """The interpreters of one server, each located when the first function needs it. Safe for several threads."""

    def __init__(self, own: Path, folder: Path) -> None:
        self._folder = folder
        self._own = self._of(own, folder / "runtime")
        self._found: dict[str, RuntimeInterpreter] = {f"python{self._own.version.rpartition('.')[0]}": self._own}
        self._packages: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def preload(self, packages: tuple[str, ...]) -> None:
        """Import all modules of these packages of layers before sandboxes are forked, from the next sandbox on."""
        with self._lock:
            self._packages = packages
            for each in self._found.values():
                each.fork.preload(packages)

    def of(self, runtime: str) -> RuntimeInterpreter:
        """Return the interpreter for Lambda's name of a runtime, such as ``python3.13``. Nothing is installed here:
        `runtime_python.find_or_make` does that.
        """
        with self._lock:
            if runtime not in self._found:
                python = runtime_python.made(runtime.removeprefix("python"))
                self._found[runtime] = (
                    self._of(python, self._folder / f"runtime-{runtime}") if python is not None else self._own
                )
                self._found[runtime].fork.preload(self._packages)
            return self._found[runtime]

    def close(self) -> None:
        """End the processes that the interpreters have forked."""
        with self._lock:
            for each in {id(each): each for each in self._found.values()}.values():
                each.fork.close()

    @staticmethod
    def _of(python: Path, packages: Path) -> RuntimeInterpreter:
        return RuntimeInterpreter(
            python, managed_packages(python, packages), ForkServers(python), runtime_python.full_version(python)
        )
