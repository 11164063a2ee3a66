"""The decision bucket: snapshots, plans, launches and the catalogue as compressed JSON."""

import gzip
from typing import Any, Final

import msgspec
from botocore.exceptions import ClientError

_FAST: Final = 1  # gzip level: the time of a scale-up matters more than the last third of the bytes


class NoSuchDocument(Exception):
    """There is nothing under this key (yet)."""


class Store:
    """One bucket of ``.json.gz`` documents."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, key: str, document: Any) -> None:
        """Keep `document` (whatever msgspec can encode) under `key`, replacing what was there."""
        body = gzip.compress(msgspec.json.encode(document), compresslevel=_FAST, mtime=0)
        self._client.put_object(Bucket=self._bucket, Key=key, Body=body, ContentType="application/json", ContentEncoding="gzip")

    def get(self, key: str) -> Any:
        """The document under `key`; `NoSuchDocument` if there is none."""
        try:
            body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except ClientError as reason:
            if reason.response.get("Error", {}).get("Code") in ("NoSuchKey", "404"):
                raise NoSuchDocument(f"nothing at {key} in the decision bucket") from reason
            raise
        return msgspec.json.decode(gzip.decompress(body))
