"""The small app's function behind the HTTP API: it says what it was rung with."""

from typing import Any


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    return {"token": event["pathParameters"]["token"], "route": event["routeKey"]}
