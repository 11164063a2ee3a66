"""The small app's function behind the HTTP API: it returns the request that it got."""

from typing import Any


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    return {"token": event["pathParameters"]["token"], "route": event["routeKey"]}
