"""Errors of EC2's API: one class for each thing that a caller does differently."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from joiner.launching.ec2_error_codes import TEMPLATE_DIFFERS, THROTTLING_ERRORS

UNKNOWN_INSTANCE: Final = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")


class Ec2Error(Exception):
    """EC2 refused the request; `code` is its error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message

    @property
    def throttled(self) -> bool:
        """Return whether EC2 throttled the request."""
        return self.code in THROTTLING_ERRORS

    @property
    def busy(self) -> bool:
        """Return whether EC2 throttled or lost the call, so that the next one would probably fail as well."""
        return self.throttled or isinstance(self, NoAnswer)


class Ec2Throttled(Ec2Error):
    """EC2 throttled the request. This does not indicate insufficient capacity: send the same request again later."""


class NoAnswer(Ec2Error):
    """The connection or the answer was lost. The effect of the request is unknown."""


class ResourceNotFound(Ec2Error):
    """One of the named resources does not exist (any more)."""


class TemplateDiffers(Ec2Error):
    """A launch template has the name of one of Joiner's and other content. It must not be used."""

    def __init__(self, name: str, fields: Sequence[str]) -> None:
        super().__init__(
            TEMPLATE_DIFFERS,
            f"launch template {name} was not made by Joiner or was replaced; it differs in {', '.join(fields)}",
        )


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate boto3's errors into the errors that callers distinguish."""
    try:
        yield
    except ClientError as reason:
        code, message = reason.response["Error"].get("Code", ""), reason.response["Error"].get("Message", "")
        status = reason.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        kind: type[Ec2Error] = Ec2Error
        if code in THROTTLING_ERRORS:
            kind = Ec2Throttled
        elif code.endswith((".NotFound", ".NotFoundException")) or code == "ParameterNotFound":
            kind = ResourceNotFound
        elif status >= 500:
            kind = NoAnswer
        raise kind(code, message) from reason
    except ParamValidationError as reason:  # boto3 did not send it
        raise Ec2Error("InvalidRequest", str(reason)) from reason
    except BotoCoreError as reason:
        raise NoAnswer(type(reason).__name__, str(reason)) from reason
