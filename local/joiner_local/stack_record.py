"""What a stack tells about itself, in `ROOT/stack.json`: written by its supervisor, read by whoever wants to use or end the stack."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from joiner_local.processes import Identity

State = Literal["starting", "ready", "failed"]
NAME = "stack.json"
DETACH = b"d"  # to the supervisor's stdin: whoever holds the other end lets go of the stack


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was done, and how many seconds after the start."""

    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StackRecord:
    """One running, starting or failed stack. Addresses are empty until they are known."""

    cluster: str
    supervisor: Identity
    state: State = "starting"
    error: str = ""
    started: str = ""  # ISO 8601
    aws: str = ""
    api_server: str = ""
    node_agent: str = ""
    steps: tuple[Step, ...] = field(default=())

    @classmethod
    def read(cls, root: Path) -> "StackRecord | None":
        """None if no stack was started under `root`, or what lies there is not ours to read."""
        try:
            content = json.loads((root / NAME).read_text())
            supervisor, steps = Identity(**content.pop("supervisor")), content.pop("steps")
            return cls(supervisor=supervisor, steps=tuple(Step(**step) for step in steps), **content)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, root: Path) -> None:
        """At once or not at all: readers never see half of it."""
        fresh = root / f"{NAME}.new"
        fresh.write_text(json.dumps(asdict(self), indent=2) + "\n")
        fresh.replace(root / NAME)
