"""Errors of the API server: one class for each answer that callers distinguish.

https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.34/#status-v1-meta lists the reasons.
"""

from collections.abc import Mapping
from typing import Any


class KubeError(Exception):
    """The API server refused the request or could not be reached. `status` is the HTTP status, 0 without an answer;
    `retry_after` is the time in seconds that the server asks its client to wait, 0 if it does not.
    """

    def __init__(self, message: str, *, status: int = 0, asked: str = "", retry_after: int = 0) -> None:
        super().__init__(f"{asked}: {message}" if asked else message)
        self.status = status
        self.retry_after = retry_after


class Unreachable(KubeError):
    """No answer, or a 5xx: the effect of the request is unknown."""


class Unauthorized(KubeError):
    """401: the cluster does not know this identity, even with a token signed just now."""


class Forbidden(KubeError):
    """403: the identity is known, but its group lacks the permission."""


class NotFound(KubeError):
    """404: the object or its kind does not exist."""


class AlreadyExists(KubeError):
    """409 on a create: an object of this name exists."""


class Conflict(KubeError):
    """409: the object changed meanwhile, or a precondition (uid, resourceVersion) is false."""


class Expired(KubeError):
    """410: the resourceVersion or continue token is too old; list again, or continue with `continue_token` at a newer
    version.
    """

    def __init__(
        self, message: str, *, status: int = 410, asked: str = "", retry_after: int = 0, continue_token: str = ""
    ) -> None:
        super().__init__(message, status=status, asked=asked, retry_after=retry_after)
        self.continue_token = continue_token


class Invalid(KubeError):
    """400 or 422: the object breaks a rule of its schema or an admission rule."""


class TooManyRequests(KubeError):
    """429: too many requests."""

    def __init__(self, message: str, *, status: int = 429, asked: str = "", retry_after: int = 0) -> None:
        super().__init__(message, status=status, asked=asked, retry_after=retry_after)


class EvictionBlocked(TooManyRequests):
    """429 from the eviction API: a PodDisruptionBudget does not allow it now. ``cause`` is the API server's sentence
    about that budget; empty if it gives none.
    """

    def __init__(
        self, message: str, *, status: int = 429, asked: str = "", retry_after: int = 0, cause: str = ""
    ) -> None:
        super().__init__(message, status=status, asked=asked, retry_after=retry_after)
        self.cause = cause


_BY_STATUS: dict[int, type[KubeError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    415: Invalid,
    422: Invalid,
}


def error_of(status: int, answer: Mapping[str, Any], asked: str, retry_after: str = "") -> KubeError:
    """Return the error for a `Status` object of the API server. `retry_after` is the answer's header; a refusal by API
    priority and fairness has no other hint, because its body is plain text.
    """
    message = str(answer.get("message") or answer.get("reason") or f"HTTP {status}")
    details = answer.get("details") or {}
    after = max(int(details.get("retryAfterSeconds") or 0), int(retry_after) if retry_after.isdecimal() else 0)
    if status == 409:
        kind = AlreadyExists if answer.get("reason") == "AlreadyExists" else Conflict
        return kind(message, status=status, asked=asked)
    if status == 410:
        return Expired(message, asked=asked, continue_token=str((answer.get("metadata") or {}).get("continue") or ""))
    if status == 429:
        causes = [one for one in details.get("causes") or () if one.get("reason") == "DisruptionBudget"]
        if causes:
            return EvictionBlocked(message, asked=asked, retry_after=after, cause=str(causes[0].get("message") or ""))
        return TooManyRequests(message, asked=asked, retry_after=after)
    if status in _BY_STATUS:
        return _BY_STATUS[status](message, status=status, asked=asked)
    return Unreachable(message, status=status, asked=asked, retry_after=after)
