"""Call knobs of the local AWS and of the node agent: settings that no AWS API has."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import urllib3


class KnobRefused(RuntimeError):
    """The knob refuses the request; the message has the reason."""


class KnobUnknown(KnobRefused):
    """There is no such knob; the message lists the existing ones."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"no knob {name}; the knobs are {', '.join(known)}")


def turn_knob(address: str, name: str, request: Mapping[str, object]) -> dict[str, Any]:
    """Call a knob: `POST /_local/NAME` with a JSON object. Returns the object of the response."""
    answer = _asked("POST", address, name, json.dumps(request))
    if answer.status == 404 and (known := _known(answer.data)):
        raise KnobUnknown(name, known)
    if answer.status != 200:
        raise KnobRefused(f"{name} {json.dumps(request)}: {_reason(answer.data)}")
    content: dict[str, Any] = json.loads(answer.data)
    return content


def knobs_of(address: str) -> list[str]:
    """Return the names of all knobs: `GET /_local/`."""
    answer = _asked("GET", address)
    if answer.status != 200:
        raise KnobRefused(f"{address} does not list its knobs: {_reason(answer.data)}")
    known: list[str] = json.loads(answer.data)["knobs"]
    return known


def _asked(method: str, address: str, name: str = "", body: str | None = None) -> urllib3.BaseHTTPResponse:
    try:
        return urllib3.request(method, f"{address}/_local/{name}", body=body, timeout=60, retries=False)
    except urllib3.exceptions.HTTPError as error:
        raise KnobRefused(
            f"no response from {address} ({error}): `joiner local status` shows whether the stack runs"
        ) from error


def _known(answer: bytes) -> Sequence[str]:
    """
    >>> _known(b'{"error": "no knob x", "knobs": ["door"]}'), _known(b"not found")
    (['door'], ())
    """
    try:
        known: list[str] = json.loads(answer)["knobs"]
    except (ValueError, KeyError, TypeError):
        return ()
    return known


def _reason(answer: bytes) -> str:
    """
    >>> _reason(b'{"error": "capacity: zone is x"}'), _reason(b"no gateway")
    ('capacity: zone is x', 'no gateway')
    """
    text = answer.decode(errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text
