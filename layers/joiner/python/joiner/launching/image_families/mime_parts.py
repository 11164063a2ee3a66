"""User data as MIME parts, which cloud-init and nodeadm read.

The user's parts are first and Joiner's part is last. Source: cloud-init, "User data formats" (MIME multi-part archive).
"""

import base64
import binascii
import email
import re
from collections.abc import Iterable
from dataclasses import dataclass
from email.message import Message
from typing import Final

from joiner.launching.image_families.node_settings import UserDataRefused

SHELL_SCRIPT = "text/x-shellscript"
NODE_CONFIG = "application/node.eks.aws"
DEFECTS: Final = {
    "NoBoundaryInMultipartDefect": "its Content-Type names no boundary",
    "StartBoundaryNotFoundDefect": "no line begins the first part with the boundary",
    "CloseBoundaryNotFoundDefect": "no line ends the last part with the boundary and --",
    "MissingHeaderBodySeparatorDefect": "no empty line separates headers from a body",
    "FirstHeaderLineIsContinuationDefect": "its first line is no header",
    "InvalidMultipartContentTransferEncodingDefect": "a multipart document has an encoding of its own",
    "MultipartInvariantViolationDefect": "it has a Content-Type of multipart and no parts",
}
"""Defects of a MIME document, as Python's parser names them, in words."""


@dataclass(frozen=True, slots=True)
class MimePart:
    """One MIME part: its body as written, and its other headers, such as the encoding."""

    content_type: str
    text: str
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def media_type(self) -> str:
        """Return the type without its parameters, such as ``text/x-shellscript``."""
        return self.content_type.partition(";")[0].strip().lower()

    def decode(self) -> str:
        """Return the body as a node reads it; raises UserDataRefused if its encoding is invalid."""
        named = {name.lower(): value.strip().lower() for name, value in self.headers}
        encoding = named.get("content-transfer-encoding", "")
        try:
            if encoding == "base64":
                return base64.b64decode("".join(self.text.split()), validate=True).decode()
            if encoding == "quoted-printable":
                return binascii.a2b_qp(self.text.encode()).decode()
        except ValueError as error:
            remedy = "encode its text again, or write it as it is and remove its Content-Transfer-Encoding"
            message = f"the MIME part {self.media_type} is not valid {encoding} of a text in UTF-8: {remedy}"
            raise UserDataRefused("InvalidUserData", message) from error
        return self.text


def read_user_parts(text: str) -> list[MimePart]:
    """Return the user's parts: MIME unchanged, a NodeConfig as one part, any other text as a shell script.

    Raises UserDataRefused if the text is malformed MIME.

    >>> [part.content_type for part in read_user_parts("apiVersion: node.eks.aws/v1alpha1")]
    ['application/node.eks.aws']
    >>> [part.content_type for part in read_user_parts("#!/bin/sh")]
    ['text/x-shellscript']
    """
    if not text.strip():
        return []
    if re.match(r"(mime-version|content-type):", text.lstrip(), re.IGNORECASE):
        return _read_mime(text.lstrip())
    if re.search(r"(^|[{,])\s*[\"']?apiVersion[\"']?\s*:\s*[\"']?node\.eks\.aws/", text, re.MULTILINE):
        return [MimePart(NODE_CONFIG, text)]
    return [MimePart(SHELL_SCRIPT, text)]


def _read_mime(text: str) -> list[MimePart]:
    try:
        parts = list(email.message_from_string(text).walk())
        leaves = [_as_it_is(part) for part in parts if not part.is_multipart()]
    except Exception as error:  # a ValueError for the name of a character set, for example: none is documented
        raise _malformed("its headers or its parts cannot be read") from error
    defects = [defect for part in parts for defect in part.defects]
    if defects:
        name = type(defects[0]).__name__
        raise _malformed(DEFECTS.get(name, name))
    return leaves


def _malformed(why: str) -> UserDataRefused:
    return UserDataRefused("InvalidUserData", f"it is malformed MIME: {why}")


def _as_it_is(part: Message) -> MimePart:
    """Return a part with its headers. Without the encoding and the character set, its body could not be read."""
    kept = tuple(
        (name, str(value)) for name, value in part.items() if name.lower() not in ("content-type", "mime-version")
    )
    return MimePart(str(part.get("Content-Type", part.get_content_type())), str(part.get_payload()), kept)


def write_multipart(parts: Iterable[MimePart]) -> str:
    """Return the parts as one MIME document.

    Equal parts give an equal document, because the boundary is a counter, not random.
    """
    listed = list(parts)
    number, boundary = 0, "//"
    while any(f"--{boundary}" in part.text for part in listed):
        number, boundary = number + 1, f"//{number + 1}"
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for part in listed:
        headers = [f"{name}: {value}" for name, value in (("Content-Type", part.content_type), *part.headers)]
        lines += [f"--{boundary}", *headers, "", part.text.rstrip("\n"), ""]
    return "\n".join([*lines, f"--{boundary}--", ""])
