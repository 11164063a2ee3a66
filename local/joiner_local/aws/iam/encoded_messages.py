"""The encoded message of an EC2 denial, and `sts:DecodeAuthorizationMessage`, which returns its content.

EC2 appends such a message to the denial of a call that changes something. Source: EC2 user guide, "Troubleshoot
instance launch issues"; STS API reference, DecodeAuthorizationMessage. On AWS the message is encrypted; here it is
compressed JSON.
"""

import base64
import binascii
import json
import zlib
from typing import Any

from joiner_local.aws.attribute_patches import replace_attribute
from joiner_local.aws.iam.policy_evaluation import EXPLICIT_DENY, AccessDecision, denial_message


def ec2_message(principal: str, decision: AccessDecision) -> str:
    """Return EC2's text for a denial: with an encoded message, unless the call only reads."""
    message = f"You are not authorized to perform this operation. {denial_message(principal, decision)}"
    if decision.permission.action.startswith(("ec2:Describe", "ec2:Get")):
        return message
    return f"{message}. Encoded authorization failure message: {encode_denial(principal, decision)}"


def encode_denial(principal: str, decision: AccessDecision) -> str:
    """Encode a denial.

    >>> from joiner_local.aws.iam.policy_evaluation import RequiredPermission
    >>> denial = AccessDecision(RequiredPermission("ec2:RunInstances", "arn:r"), False, "reason")
    >>> decode_denial(encode_denial("arn:p", denial))["context"]["action"]
    'ec2:RunInstances'
    """
    permission = decision.permission
    conditions = [
        {"key": key, "values": {"items": [{"value": each} for each in values]}}
        for key, values in permission.context.items()
    ]
    fields = {
        "allowed": decision.allowed,
        "explicitDeny": decision.reason == EXPLICIT_DENY,
        "matchedStatements": {"items": [{"statementId": decision.statement}] if decision.statement else []},
        "context": {
            "principal": {"arn": principal},
            "action": permission.action,
            "resource": permission.resource,
            "conditions": {"items": conditions},
        },
    }
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(fields).encode())).decode()


def decode_denial(text: str) -> dict[str, Any]:
    """Decode an encoded message; `ValueError` for another text."""
    try:
        fields: dict[str, Any] = json.loads(zlib.decompress(base64.urlsafe_b64decode(text)))
    except (binascii.Error, zlib.error) as error:
        raise ValueError("not an encoded authorization message") from error
    return fields


def install() -> None:
    """Add the operation, which moto lacks, to STS."""
    from moto.core.responses import ActionResult
    from moto.sts.exceptions import STSClientError
    from moto.sts.responses import TokenResponse

    def decode_authorization_message(self: Any) -> Any:
        try:
            return ActionResult({"DecodedMessage": json.dumps(decode_denial(self._get_param("EncodedMessage")))})
        except ValueError:
            raise STSClientError("InvalidAuthorizationMessageException", "Message is not valid") from None

    replace_attribute(TokenResponse, "decode_authorization_message", decode_authorization_message)
