"""The small app's function behind the HTTP API: it says what it was rung with."""


def handler(event: dict, _context: object) -> dict:
    return {"token": event["pathParameters"]["token"], "route": event["routeKey"]}
