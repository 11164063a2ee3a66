"""Why AWS could not be asked, in one sentence with its remedy: what a person can do about it is not what botocore's messages say.

Whatever is not known here is told in AWS's own words.
"""

from collections.abc import Mapping
from typing import Final

from botocore import exceptions as botocore

LOG_IN: Final = "run `aws configure` or `aws sso login`, or set AWS_PROFILE"

MESSAGES_BY_CODE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("ExpiredToken", "ExpiredTokenException", "RequestExpired"), f"the credentials have expired: {LOG_IN}"
    ),
    **dict.fromkeys(
        ("UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException", "SignatureDoesNotMatch"),
        f"AWS does not know these credentials, or they are another account's or partition's: {LOG_IN}",
    ),
}
"""Codes that any service may answer."""

NO_CREDENTIALS: Final = (
    botocore.NoCredentialsError,
    botocore.PartialCredentialsError,
    botocore.CredentialRetrievalError,
    botocore.SSOError,
)


def describe_aws_error(error: Exception, *, needs: str) -> str:
    """One line. ``needs`` are the permissions that the command wants, for whoever lacks one."""
    said = _one_line(error)
    match error:
        case botocore.ClientError():
            said = _describe_client_error(error, needs)
        case botocore.ProfileNotFound():
            said = f"{said}: set AWS_PROFILE to one of `aws configure list-profiles`"
        case botocore.NoRegionError():
            said = "no region is known: give --region, or set AWS_REGION"
        case botocore.InvalidRegionError():
            said = f"{said}: give --region a name such as eu-west-1"
        case botocore.HTTPClientError() | botocore.ConnectionError():
            said = f"AWS does not answer: {said}: check the region, the network and AWS_ENDPOINT_URL"
        case _ if isinstance(error, NO_CREDENTIALS):
            said = (
                f"there are no credentials for AWS ({said}): {LOG_IN}, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        case ValueError() if not isinstance(error, botocore.BotoCoreError):
            said = f"{said}: check AWS_ENDPOINT_URL"  # botocore raises a bare one for an endpoint that is no URL
    return said


def _describe_client_error(error: botocore.ClientError, needs: str) -> str:
    code = str(error.response.get("Error", {}).get("Code", ""))
    if code in MESSAGES_BY_CODE:
        return MESSAGES_BY_CODE[code]
    if code in ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation"):
        return f"AWS refuses: {error.response['Error'].get('Message') or code}: have {needs} allowed to you"
    return _one_line(error)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
