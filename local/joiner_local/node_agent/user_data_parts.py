"""The parts of the user data of a Linux instance, as cloud-init divides it.

User data is one document or MIME multipart, and may be compressed with gzip. A document without a MIME header is a
shell script if it begins with `#!`, and else a NodeConfig.

>>> read_parts(b"#!/bin/sh\\ntrue", SHELL_SCRIPT), read_parts(b"#!/bin/sh\\ntrue", NODE_CONFIG)
([b'#!/bin/sh\\ntrue'], [])
"""

import email
import email.policy
import gzip
from typing import Final

SHELL_SCRIPT: Final = "text/x-shellscript"
NODE_CONFIG: Final = "application/node.eks.aws"
GZIP: Final = b"\x1f\x8b"
SHEBANG: Final = b"#!"


def read_parts(user_data: bytes, media_type: str) -> list[bytes]:
    """Return the decoded content of each part of a media type, in order."""
    raw = gzip.decompress(user_data) if user_data.startswith(GZIP) else user_data
    message = email.message_from_bytes(raw, policy=email.policy.default)
    if "content-type" in message:
        contents = [part.get_payload(decode=True) for part in message.walk() if part.get_content_type() == media_type]
        return [content if isinstance(content, bytes) else b"" for content in contents]
    alone = SHELL_SCRIPT if raw.startswith(SHEBANG) else NODE_CONFIG
    return [raw] if raw.strip() and media_type == alone else []
