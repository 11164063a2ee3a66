"""The knobs of the local AWS, from outside: what no AWS API can be told."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any


class KnobRefused(RuntimeError):
    """The local AWS has no such knob, or cannot turn it as asked; says why."""


def turn_knob(address: str, name: str, request: Mapping[str, object]) -> dict[str, Any]:
    """`POST /_local/NAME` with a JSON object; the answer's object."""
    call = urllib.request.Request(f"{address}/_local/{name}", data=json.dumps(request).encode(), method="POST")
    try:
        with urllib.request.urlopen(call, timeout=10) as answer:
            content: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        raise KnobRefused(f"{name} {dict(request)}: {error.code} {error.read().decode(errors='replace')}") from error
    return content
