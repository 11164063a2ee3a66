"""One S3 bucket in memory with the methods of a boto3 client that `joiner.adapters.store` uses.

Its contract is that of the local AWS: `tests/local/test_fake_s3.py` runs against both.
"""

import hashlib
import io
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from botocore.exceptions import ClientError
from botocore.response import StreamingBody


@dataclass
class FakeS3:
    """A client and its one bucket."""

    bucket: str
    _objects: dict[str, tuple[bytes, dict[str, str]]] = field(default_factory=dict)

    def put_object(
        self, *, Bucket: str, Key: str, Body: bytes, ContentType: str = "", ContentEncoding: str = ""
    ) -> dict[str, Any]:
        """Store an object."""
        self._is_ours("PutObject", Bucket)
        headers = {"ContentType": ContentType, "ContentEncoding": ContentEncoding}
        self._objects[Key] = bytes(Body), headers
        return {"ETag": _tag(Body)}

    def get_object(self, *, Bucket: str, Key: str, IfNoneMatch: str = "") -> dict[str, Any]:
        """Return an object, unless it is still the one with the tag."""
        self._is_ours("GetObject", Bucket)
        if Key not in self._objects:
            raise _error("GetObject", "NoSuchKey", HTTPStatus.NOT_FOUND)
        content, headers = self._objects[Key]
        if IfNoneMatch == _tag(content):
            raise _error("GetObject", "304", HTTPStatus.NOT_MODIFIED)
        body = StreamingBody(io.BytesIO(content), len(content))
        return {"Body": body, "ETag": _tag(content), "ContentLength": len(content), **headers}

    def _is_ours(self, operation: str, bucket: str) -> None:
        if bucket != self.bucket:
            raise _error(operation, "NoSuchBucket", HTTPStatus.NOT_FOUND)


def _tag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _error(operation: str, code: str, status: HTTPStatus) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": status.phrase}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)
