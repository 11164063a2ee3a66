"""The calls that a survey can do without: names, console outputs, status checks, and the input of drift detection.

A service that fails or does not answer them must not end the survey, whose decisions every sweep needs. So each of them
is tried once with a short timeout, starts only while the function has time left for it, and reports its failure.
"""

from dataclasses import dataclass
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from joiner.adapters.ec2_client import Ec2
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft
from joiner.adapters.store import Store

STORAGE_ERRORS: Final = (ClientError, BotoCoreError)
"""What the bucket and the table raise when they refuse a call or do not answer it."""


@dataclass(frozen=True, slots=True)
class OptionalCalls:
    """EC2 and the bucket, with clients that try each call once (`environment.single_try_client`)."""

    ec2: Ec2
    store: Store
    time_left: TimeLeft = UNBOUNDED


def storage_trouble(subject: str, error: Exception) -> str:
    """Return why `subject` could not be stored, as one sentence.

    >>> refusal = {"Error": {"Code": "AccessDenied", "Message": "no"}}
    >>> storage_trouble("the console output of i-1", ClientError(refusal, "PutObject"))
    'the console output of i-1 could not be stored (PutObject: AccessDenied)'
    """
    if isinstance(error, ClientError):
        what = f"{error.operation_name}: {error.response['Error'].get('Code', '')}"
    else:
        what = type(error).__name__
    return f"{subject} could not be stored ({what})"
