"""What the services of the local AWS share: addresses, and the knobs that tests and users set.

A service module has a function `install`, which `installation` calls once. It changes moto where moto differs from AWS,
and registers the service's knobs. A knob is called by `POST /_local/NAME` with a JSON object and answers a JSON object;
`GET /_local/` lists the names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from joiner_local.knob_requests import Knob

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

ACCOUNT = "123456789012"
REGION = "us-east-1"


@dataclass(slots=True)
class LocalAws:
    """One running local AWS.

    `endpoint` is its URL, `data` its folder, `python` the interpreter of Lambda's managed runtime. `knobs` are
    functions by name; a knob raises `ValueError` to refuse a request, and the caller gets the message.
    `services` are whole APIs that moto does not have, by the name that requests are signed for (``pricing``). `paths`
    are our own URLs, by their prefix below ``/_local/`` (``custom-resources/``). `closing` are called in reverse order
    when the process ends.
    """

    endpoint: str
    data: Path
    python: Path
    knobs: dict[str, Knob] = field(default_factory=dict)
    services: "dict[str, WSGIApplication]" = field(default_factory=dict)
    paths: "dict[str, WSGIApplication]" = field(default_factory=dict)
    closing: list[Callable[[], None]] = field(default_factory=list)

    def add_knobs(self, knobs: Mapping[str, Knob]) -> None:
        """Register knobs. Raises `ValueError` if a name is taken."""
        if taken := sorted(self.knobs.keys() & knobs.keys()):
            raise ValueError(f"two knobs have the name {', '.join(taken)}")
        self.knobs |= knobs

    def add_service(self, name: str, application: "WSGIApplication") -> None:
        """Register an API by the service name in the signatures of its requests. Raises `ValueError` if the name is
        taken.
        """
        if name in self.services:
            raise ValueError(f"two applications answer for the service {name}")
        self.services[name] = application

    def add_path(self, prefix: str, application: "WSGIApplication") -> None:
        """Register URLs below ``/_local/``. Raises `ValueError` if a registered prefix begins with this one, or this
        one with it.
        """
        if overlapping := [each for each in self.paths if each.startswith(prefix) or prefix.startswith(each)]:
            raise ValueError(f"two applications answer for {overlapping[0]} and {prefix}")
        self.paths[prefix] = application
