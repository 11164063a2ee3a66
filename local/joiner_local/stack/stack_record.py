"""The record of a stack in `ROOT/stack.json`: its supervisor writes it, and processes that use or end the stack read
it.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from joiner_local.stack.stack_processes import ProcessIdentity

State = Literal["starting", "ready", "failed"]
NAME = "stack.json"
DETACH = b"d"  # on the supervisor's stdin: the stack continues without the process that started it


@dataclass(frozen=True, slots=True)
class StartStep:
    """A completed step of the start, and its seconds after the start."""

    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StackRecord:
    """One running, starting or failed stack. Addresses are empty until they are known."""

    cluster: str
    supervisor: ProcessIdentity
    state: State = "starting"
    error: str = ""
    started: str = ""  # ISO 8601
    aws: str = ""
    api_server: str = ""
    etcd: str = ""
    node_agent: str = ""
    steps: tuple[StartStep, ...] = field(default=())

    @classmethod
    def read(cls, root: Path) -> "StackRecord | None":
        """Return the record; None if no stack was started under `root`, or if the file is not readable."""
        try:
            content = json.loads((root / NAME).read_text())
            supervisor, steps = ProcessIdentity(**content.pop("supervisor")), content.pop("steps")
            return cls(supervisor=supervisor, steps=tuple(StartStep(**step) for step in steps), **content)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, root: Path) -> None:
        """Write the record atomically."""
        fresh = root / f"{NAME}.new"
        fresh.write_text(json.dumps(asdict(self), indent=2) + "\n")
        fresh.replace(root / NAME)
