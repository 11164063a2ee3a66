"""The decision bucket: snapshots, plans, launches and the catalogue as compressed JSON."""

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast

import msgspec
from botocore.exceptions import ClientError

from joiner.cluster.list_pages import Packed

Read = TypeVar("Read")

_FAST: Final = 1  # gzip level: the time of a scale-up matters more than the last third of the bytes


SCHEMA: Final = 1
"""The schema of all documents. A document without a number is of schema 1: earlier versions wrote none."""

_TOP: Final = b'{"schema":%d' % SCHEMA
_LIST: Final = b',"list":'
_STATED: Final = re.compile(rb'\{"schema":(\d+)')
_GZIP: Final = 16  # zlib: a gzip header and trailer around the data


UNREADABLE: Final = (EOFError, OSError, zlib.error, msgspec.MsgspecError)
"""Errors of a document whose bytes are damaged."""


class DocumentSchema(Exception):
    """A document has a schema that this version of Joiner cannot read."""

    def __init__(self, key: str, found: int) -> None:
        super().__init__(
            f"document {key} has schema {found}, and this version of Joiner reads schema {SCHEMA}: "
            "deploy the version that wrote it, or delete the document"
        )
        self.key = key
        self.found = found


class NoSuchDocument(Exception):
    """No document exists under this key (yet)."""


class Store:
    """One bucket of ``.json.gz`` documents."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket
        self._known: dict[str, tuple[str, Any]] = {}

    def put(self, key: str, document: Any) -> None:
        """Store `document` (any value that msgspec can encode, or packed manifests) under `key`, replacing the old one.

        Its schema number is a top-level field; a list becomes an object with the number and the list.
        """
        body = b"".join(_compressed(msgspec.json.encode(document, enc_hook=_encoded)))
        self._client.put_object(
            Bucket=self._bucket, Key=key, Body=body, ContentType="application/json", ContentEncoding="gzip"
        )

    def get(self, key: str) -> Any:
        """Return the document under `key`; `NoSuchDocument` if it does not exist, `DocumentSchema` if it has another
        schema."""
        return _decoded(key, self._fetch(key))

    def get_as(self, key: str, shape: type[Read]) -> Read:
        """Return the document under `key`, of which only the fields of `shape` are decoded; raises as `get`."""
        return msgspec.json.decode(_content(key, self._fetch(key)), type=shape)

    def get_seldom_changed(self, key: str, read: Callable[[Any], Read]) -> Read:
        """Return the result of `read` for the document under `key`, the same value until the document changes.

        For large documents that are written once an hour: each call sends a request, but the answer has content only if
        it changed. `read` must always be the same for a key, its value immutable. Raises as `get`.
        """
        tag, value = self._known.get(key, ("", None))
        try:
            answer = self._fetch(key, **({"IfNoneMatch": tag} if tag else {}))
        except ClientError as reason:
            if reason.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != HTTPStatus.NOT_MODIFIED:
                raise
            return cast(Read, value)
        made = read(_decoded(key, answer))
        self._known[key] = (answer["ETag"], made)
        return made

    def _fetch(self, key: str, **condition: str) -> Any:
        try:
            return self._client.get_object(Bucket=self._bucket, Key=key, **condition)
        except ClientError as reason:
            if reason.response.get("Error", {}).get("Code") in ("NoSuchKey", "404"):
                raise NoSuchDocument(f"nothing at {key} in the decision bucket") from reason
            raise


def _compressed(encoded: bytes) -> Iterator[bytes]:
    """Return the document with its schema number, as gzip, without copying a large document to add the number."""
    inner = memoryview(encoded)
    parts: tuple[bytes | memoryview, ...]
    if encoded == b"{}":
        parts = (_TOP, b"}")
    elif encoded[:1] == b"{":
        parts = (_TOP + b",", inner[1:])
    else:
        parts = (_TOP + _LIST, inner, b"}")
    gzipped = zlib.compressobj(
        _FAST, zlib.DEFLATED, zlib.MAX_WBITS | _GZIP
    )  # no time in its header: same document, same bytes
    for part in parts:
        yield gzipped.compress(part)
    yield gzipped.flush()


def _content(key: str, answer: Any) -> memoryview:
    """Return the JSON of a document, a list without the object around it; DocumentSchema if this version cannot read
    it."""
    content = gzip.decompress(answer["Body"].read())
    stated = _STATED.match(content)
    if stated is not None and (found := int(stated[1])) != SCHEMA:
        raise DocumentSchema(key, found)
    start = len(_TOP + _LIST)
    return memoryview(content)[start:-1] if content.startswith(_TOP + _LIST) else memoryview(content)


def _decoded(key: str, answer: Any) -> Any:
    document = msgspec.json.decode(_content(key, answer))
    if isinstance(document, dict):
        document.pop("schema", None)
    return document


def _encoded(value: Any) -> Any:
    if isinstance(value, Packed):
        return msgspec.Raw(value.array())
    raise NotImplementedError(f"no JSON for {type(value).__name__}")
