"""The decision bucket: snapshots, plans, launches and the catalogue as compressed JSON."""

import gzip
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast

import msgspec
from botocore.exceptions import ClientError

from joiner.cluster.listing import Packed

Read = TypeVar("Read")

_FAST: Final = 1  # gzip level: the time of a scale-up matters more than the last third of the bytes


class NoSuchDocument(Exception):
    """There is nothing under this key (yet)."""


class Store:
    """One bucket of ``.json.gz`` documents."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket
        self._known: dict[str, tuple[str, Any]] = {}

    def put(self, key: str, document: Any) -> None:
        """Keep `document` (whatever msgspec can encode, or packed manifests) under `key`, replacing what was there."""
        body = gzip.compress(msgspec.json.encode(document, enc_hook=_encoded), compresslevel=_FAST, mtime=0)
        self._client.put_object(Bucket=self._bucket, Key=key, Body=body, ContentType="application/json", ContentEncoding="gzip")

    def get(self, key: str) -> Any:
        """The document under `key`; `NoSuchDocument` if there is none."""
        return _decoded(self._fetch(key))

    def get_as(self, key: str, shape: type[Read]) -> Read:
        """The document under `key`, of which only the fields of `shape` are decoded; `NoSuchDocument` if there is none."""
        return msgspec.json.decode(gzip.decompress(self._fetch(key)["Body"].read()), type=shape)

    def get_seldom_changed(self, key: str, read: Callable[[Any], Read]) -> Read:
        """What `read` makes of the document under `key`, the same value until another document lies there.

        For what is large and written once an hour: the bucket is asked each time, but answers with bytes only if they are new.
        `read` must always be the same for a key, its value unchangeable. NoSuchDocument as above.
        """
        tag, value = self._known.get(key, ("", None))
        try:
            answer = self._fetch(key, **({"IfNoneMatch": tag} if tag else {}))
        except ClientError as reason:
            if reason.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != HTTPStatus.NOT_MODIFIED:
                raise
            return cast(Read, value)
        made = read(_decoded(answer))
        self._known[key] = (answer["ETag"], made)
        return made

    def _fetch(self, key: str, **condition: str) -> Any:
        try:
            return self._client.get_object(Bucket=self._bucket, Key=key, **condition)
        except ClientError as reason:
            if reason.response.get("Error", {}).get("Code") in ("NoSuchKey", "404"):
                raise NoSuchDocument(f"nothing at {key} in the decision bucket") from reason
            raise


def _decoded(answer: Any) -> Any:
    return msgspec.json.decode(gzip.decompress(answer["Body"].read()))


def _encoded(value: Any) -> Any:
    if isinstance(value, Packed):
        return msgspec.Raw(value.array())
    raise NotImplementedError(f"no JSON for {type(value).__name__}")
