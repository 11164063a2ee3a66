"""What the services of the local AWS share: where they are, and the knobs by which a test turns the weather.

Each service module has one `install(aws: LocalAws) -> None`, called once by `server.py` in a fixed order. It replaces what moto lacks,
adds its CloudFormation types, and registers its knobs: `POST /_local/NAME` with a JSON object, answered with a JSON object.
`GET /_local/` tells their names.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

ACCOUNT = "123456789012"
REGION = "us-east-1"

Part = TypeVar("Part")
Knob = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(slots=True)
class LocalAws:
    """One running local AWS. `endpoint` is its URL, `data` its folder, `python` the interpreter that plays Lambda's managed runtime.

    `services` are whole APIs that moto has not, by the name requests are signed for (``pricing``); `paths` are URLs of our own, by their
    prefix below ``/_local/`` (``custom-resources/``); a knob that refuses raises `ValueError` or `KeyError`, and the caller reads why.
    `rewrites` see every string that a template's functions give: an AWS address in it may be another one here. `parts` are the services
    themselves, by their class, for those that call each other in this process.
    """

    endpoint: str
    data: Path
    python: Path
    knobs: dict[str, Knob] = field(default_factory=dict)
    services: "dict[str, WSGIApplication]" = field(default_factory=dict)
    paths: "dict[str, WSGIApplication]" = field(default_factory=dict)
    rewrites: list[Callable[[str], str]] = field(default_factory=list)
    parts: dict[type, Any] = field(default_factory=dict)
    closing: list[Callable[[], None]] = field(default_factory=list)

    def part(self, kind: type[Part]) -> Part:
        """The service of that class; a `KeyError` if it is not installed (yet)."""
        found: Part = self.parts[kind]
        return found
