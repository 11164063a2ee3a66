"""Parse HTTP requests to AWS APIs into service, operation and parameters, by botocore's models and moto's parsers.

The body of an object that is put into S3 is not read: such a request may wait for *100 Continue*, and IAM does not
depend on it.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

MODELS: Final = {"states": "stepfunctions", "monitoring": "cloudwatch"}
"""botocore's names of services whose requests are signed for another name."""

S3_OBJECT: Final = {
    "GET": "GetObject",
    "HEAD": "HeadObject",
    "PUT": "PutObject",
    "DELETE": "DeleteObject",
    "POST": "PostObject",
}
S3_BUCKET: Final = {
    "GET": "ListObjectsV2",
    "HEAD": "HeadBucket",
    "PUT": "CreateBucket",
    "DELETE": "DeleteBucket",
    "POST": "DeleteObjects",
}


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One call of an API. `service` is the name that requests are signed for."""

    service: str
    operation: str
    params: Mapping[str, Any] = field(default_factory=dict)


class UnreadableRequest(ValueError):
    """A request whose operation no model knows."""


def signing_scope(environ: Mapping[str, Any]) -> tuple[str, str]:
    """Return the access key and the service of the `Authorization` header; empty for a request without one.

    >>> scope = "ASIAX/20261121/us-east-1/ec2/aws4_request"
    >>> signing_scope({"HTTP_AUTHORIZATION": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host"})
    ('ASIAX', 'ec2')
    """
    scope = str(environ.get("HTTP_AUTHORIZATION", "")).split(",", 1)[0].partition("Credential=")[2].split("/")
    return (scope[0], scope[3]) if len(scope) == 5 else ("", "")


def parse_api_call(service: str, environ: "WSGIEnvironment") -> ApiCall:
    """Parse a request; its body can be read again. Raises `UnreadableRequest`."""
    if service == "s3":
        return _read_s3(environ)
    if target := str(environ.get("HTTP_X_AMZ_TARGET", "")).rpartition(".")[2]:
        return ApiCall(service, target, json.loads(_body(environ) or b"{}"))
    return _read_by_model(service, environ)


def _read_by_model(service: str, environ: "WSGIEnvironment") -> ApiCall:
    from moto.core.parse import PROTOCOL_PARSERS
    from moto.core.request import Request
    from moto.core.routing import get_service_router
    from moto.core.utils import get_service_model

    body = _body(environ)
    request = Request({**environ, "wsgi.input": io.BytesIO(body)})
    model = get_service_model(MODELS.get(service, service))
    name, url_params = parse_qs(body.decode("utf-8", "replace")).get("Action", [""])[0], {}
    if not name:
        try:
            operation, url_params = get_service_router(MODELS.get(service, service)).match(request)
        except Exception as error:  # moto raises werkzeug's NotFound and a plain NotImplementedError
            raise UnreadableRequest(f"{service} {environ.get('REQUEST_METHOD')} {environ.get('PATH_INFO')}") from error
        name = operation.name
    parser = PROTOCOL_PARSERS[model.protocol if model.protocol in PROTOCOL_PARSERS else "query"](
        model.operation_model(name)
    )
    asked = parser.parse(
        {
            "method": request.method,
            "values": request.values,
            "headers": request.headers,
            "body": body,
            "url_path": request.path,
            "url_params": url_params,
        }
    )
    return ApiCall(service, name, asked)


def _read_s3(environ: "WSGIEnvironment") -> ApiCall:
    """Parse a request in path style, `/bucket/key`. The operations are those that Joiner uses with these methods and
    paths."""
    bucket, _, key = str(environ.get("PATH_INFO", "")).lstrip("/").partition("/")
    method, query = (
        str(environ.get("REQUEST_METHOD")),
        parse_qs(str(environ.get("QUERY_STRING", "")), keep_blank_values=True),
    )
    params: dict[str, Any] = {"Bucket": bucket, "Key": key}
    if key:
        return ApiCall("s3", S3_OBJECT.get(method, method), params)
    if method == "POST" and "delete" in query:
        from xml.etree import ElementTree

        tree = ElementTree.fromstring(_body(environ))  # noqa: S314 - of a function of this stack
        params["Keys"] = [each.text or "" for each in tree.iter() if each.tag.rpartition("}")[2] == "Key"]
    elif method == "GET" and "prefix" in query:
        params["Prefix"] = query["prefix"][0]
    if not bucket:
        return ApiCall("s3", "ListBuckets" if method == "GET" else method, {})
    unknown = set(query) - {
        "delete",
        "list-type",
        "prefix",
        "delimiter",
        "encoding-type",
        "max-keys",
        "continuation-token",
        "start-after",
    }
    return ApiCall("s3", f"{method} ?{'&'.join(sorted(unknown))}" if unknown else S3_BUCKET.get(method, method), params)


def _body(environ: "WSGIEnvironment") -> bytes:
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body
