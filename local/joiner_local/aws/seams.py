"""What the services of the local AWS share: where they are, and the knobs by which a test turns the weather.

Each service module has one `install(aws: LocalAws) -> None`, called once by `server.py` in a fixed order. It replaces what moto lacks,
adds its CloudFormation types, and registers its knobs: `POST /_local/NAME` with a JSON object, answered with a JSON object.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ACCOUNT = "123456789012"
REGION = "us-east-1"

Knob = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(slots=True)
class LocalAws:
    """One running local AWS. `endpoint` is its URL, `data` its folder, `python` the interpreter that plays Lambda's managed runtime."""

    endpoint: str
    data: Path
    python: Path
    knobs: dict[str, Knob] = field(default_factory=dict)
    closing: list[Callable[[], None]] = field(default_factory=list)
