"""The Python of the deployed functions: the version in `clusters/local.yaml`, if this machine has it.

The word `host` means the newest Python of this machine that Lambda has, too. If the named version is missing, or cannot
be prepared, the functions run on the stack's own Python. The app is synthesised for the chosen interpreter: its
template names that version, and the layers contain what pip installs for it.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import yaml

from joiner_local.tooling import runtime_python
from joiner_local.tooling.command_progress import Say, StepFailed

HOST: Final = "host"
VERSIONS: Final = ("3.14", "3.13", "3.12", "3.11")
"""Versions that both Lambda and our code have, newest first."""


@dataclass(frozen=True, slots=True)
class FunctionPython:
    """`interpreter` is a Python of this machine, `version` such as ``3.13.0``; `note` is the reason if it is not the
    named one.
    """

    interpreter: Path
    version: str
    note: str = ""

    @property
    def short(self) -> str:
        """The version with two numbers, such as ``3.13``."""
        return ".".join(self.version.split(".")[:2])

    def __str__(self) -> str:
        return f"functions run on Python {self.version}" + (f" ({self.note})" if self.note else "")


def named_in(settings: Path) -> str:
    """Return the `runtime.python` of a cluster's settings."""
    read = yaml.safe_load(settings.read_text(encoding="utf-8")) or {}
    return str(read.get("runtime", {}).get("python", HOST))


class Pythons(Protocol):
    """The interpreters of a machine; `runtime_python` has those of this machine."""

    def interpreter(self, version: str) -> Path | None: ...
    def full_version(self, python: Path) -> str: ...
    def find_or_make(self, say: Say, version: str = "") -> Path | None: ...
    def made(self, version: str) -> Path | None: ...


def find(named: str, pythons: Pythons = runtime_python) -> FunctionPython:
    """Return the expected Python for the settings, before it is prepared."""
    return next(iter(_candidates(named, pythons)), _own(f"this machine has no Python {named}"))


def make_ready(named: str, say: Say, pythons: Pythons = runtime_python) -> FunctionPython:
    """Return the Python for the settings, prepared so that it can simulate Lambda's runtime."""
    note = f"this machine has no Python {named}"
    for each in _candidates(named, pythons):
        try:
            pythons.find_or_make(say, each.short)
        except StepFailed as error:
            note = f"Python {each.version} of this machine cannot run functions: {str(error).splitlines()[0]}"
        else:
            return each
    pythons.find_or_make(say)
    return _own(note)


def of_assembly(assembly: Path, pythons: Pythons = runtime_python) -> str:
    """Return a sentence about the Python that runs the functions of a synthesised app, according to its templates."""
    return "; ".join(str(_made(version, pythons)) for version in sorted(_named_by_templates(assembly)))


def _made(version: str, pythons: Pythons) -> FunctionPython:
    made = pythons.made(version)
    return FunctionPython(made, pythons.full_version(made)) if made else _own(f"no Python {version} was made ready")


def _named_by_templates(assembly: Path) -> set[str]:
    """Return the versions in the templates, such as ``3.13``."""
    found = set()
    for path in assembly.glob("*.template.json"):
        for each in json.loads(path.read_text(encoding="utf-8")).get("Resources", {}).values():
            if each["Type"] == "AWS::Lambda::Function":
                found.add(str(each["Properties"]["Runtime"]).removeprefix("python"))
    return found


def _candidates(named: str, pythons: Pythons) -> Iterator[FunctionPython]:
    for version in VERSIONS if named == HOST else (named,):
        if (interpreter := pythons.interpreter(version)) is not None:
            yield FunctionPython(interpreter, pythons.full_version(interpreter))


def _own(note: str) -> FunctionPython:
    return FunctionPython(Path(sys.executable), "{}.{}.{}".format(*sys.version_info[:3]), note)
