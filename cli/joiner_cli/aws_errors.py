"""Describes errors of AWS calls in one line with a remedy, which botocore's messages lack.

Other errors keep the message of AWS.
"""

from collections.abc import Mapping
from typing import Final

from botocore import exceptions as botocore
from botocore.parsers import ResponseParserError

AWS_ERRORS: Final = (botocore.BotoCoreError, botocore.ClientError, ResponseParserError)
"""What a call of boto3 raises."""

LOG_IN: Final = "run `aws configure` or `aws sso login`, or set AWS_PROFILE"

MESSAGES_BY_CODE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("ExpiredToken", "ExpiredTokenException", "RequestExpired"), f"the credentials have expired: {LOG_IN}"
    ),
    **dict.fromkeys(
        ("UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException", "SignatureDoesNotMatch"),
        f"the credentials are invalid, or belong to another account or partition: {LOG_IN}",
    ),
}
"""Error codes that any service may return."""

NO_CREDENTIALS: Final = (
    botocore.NoCredentialsError,
    botocore.PartialCredentialsError,
    botocore.CredentialRetrievalError,
    botocore.SSOError,
)


UNKNOWN_REGION: Final = "AWS does not know the region of this request: give --region a name such as eu-west-1"
CHECK_ENDPOINT: Final = "check --region, AWS_ENDPOINT_URL and a proxy between"


def describe_aws_error(error: Exception, *, needs: str) -> str:
    """Return one line. ``needs`` lists the permissions of the command, for an access error."""
    message = _one_line(error)
    match error:
        case botocore.ClientError():
            message = _describe_client_error(error, needs)
        case ResponseParserError():  # its message has the body, which may be a page
            message = f"the answer is not one of AWS: {CHECK_ENDPOINT}"
        case botocore.ProfileNotFound():
            message = f"{message}: set AWS_PROFILE to one of `aws configure list-profiles`"
        case botocore.NoRegionError():
            message = "no region is set: give --region, or set AWS_REGION"
        case botocore.InvalidRegionError():
            message = f"{message}: give --region a name such as eu-west-1"
        case botocore.HTTPClientError() | botocore.ConnectionError():
            message = f"AWS does not answer: {message}: check the region, the network and AWS_ENDPOINT_URL"
        case _ if isinstance(error, NO_CREDENTIALS):
            message = (
                f"there are no AWS credentials ({message}): {LOG_IN}, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        case ValueError() if not isinstance(error, botocore.BotoCoreError):
            message = (
                f"{message}: check AWS_ENDPOINT_URL"  # botocore raises a plain ValueError for an invalid endpoint URL
            )
    return message


def _describe_client_error(error: botocore.ClientError, needs: str) -> str:
    answer = error.response.get("Error", {})
    code, message = str(answer.get("Code", "")), str(answer.get("Message", ""))
    if "to a valid region" in message or code == "AuthorizationHeaderMalformed":
        return UNKNOWN_REGION
    if not code or code.isdigit() or message.lstrip().startswith("<"):  # botocore takes the status and the whole body
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or code or "unknown"
        return f"the answer is not one of AWS, with the HTTP status {status}: {CHECK_ENDPOINT}"
    if code in MESSAGES_BY_CODE:
        return MESSAGES_BY_CODE[code]
    if code in ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation"):
        return f"AWS refuses: {error.response['Error'].get('Message') or code}: allow {needs}"
    return _one_line(error)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
