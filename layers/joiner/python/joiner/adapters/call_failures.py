"""The errors of a call that failed: the API server or an AWS service refused it, or did not answer.

A function that handles many objects reports such an error for the object that it belongs to, and continues with the
others. Every other error is a defect, and ends the function.
"""

from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from joiner.adapters.kube_errors import Forbidden, Invalid, KubeError

CallFailure = KubeError | ClientError | BotoCoreError

CALL_FAILURES: Final = (KubeError, ClientError, BotoCoreError)


def is_lasting(failure: Exception) -> bool:
    """Return whether the same request fails again until a person changes something, such as an admission policy.

    >>> is_lasting(Forbidden("denied by a policy", status=403)), is_lasting(KubeError("no answer"))
    (True, False)
    """
    return isinstance(failure, Forbidden | Invalid)
