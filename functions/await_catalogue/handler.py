"""Custom resource: run the first refresh of the catalogue and wait for it; the first scale-up needs a catalogue."""

import json
from collections.abc import Mapping
from typing import Any, Final

from joiner.adapters.custom_resource import Answer, LambdaContext, Request, serve

PHYSICAL_ID: Final = "first-catalogue"
LONGEST_SECONDS: Final = 310
"""A little more than the timeout of refresh_catalogue."""
MOST_CHARACTERS: Final = 1000


class RefreshFailed(Exception):
    """There is no catalogue; the message is the error of refresh_catalogue."""


def handler(event: Mapping[str, Any], context: LambdaContext) -> None:
    """Answer CloudFormation."""
    serve(event, context, refresh)


def refresh(request: Request) -> Answer:
    """Invoke the function that the request names and wait for its end.

    Raises RefreshFailed if the function fails.
    """
    if request.kind != "Delete":
        function = request.properties["Function"]
        import boto3
        from botocore.config import Config

        # One attempt: a second concurrent refresh would only repeat the same EC2 calls
        patient = Config(read_timeout=LONGEST_SECONDS, connect_timeout=5, retries={"total_max_attempts": 1})
        answer = boto3.client("lambda", config=patient).invoke(FunctionName=function, Payload=b"{}")
        if answer.get("FunctionError"):
            raise RefreshFailed(read_error(answer["Payload"].read()))
    return Answer(PHYSICAL_ID)


def read_error(payload: bytes) -> str:
    """Return Lambda's description of an error as one sentence, without the stack trace."""
    try:
        error = json.loads(payload)
        return f"{error.get('errorType', 'Error')}: {error['errorMessage']}; deploy again"
    except (ValueError, KeyError, AttributeError, TypeError):
        return payload[:MOST_CHARACTERS].decode(errors="replace")
