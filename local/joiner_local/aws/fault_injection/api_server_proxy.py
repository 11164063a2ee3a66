"""A proxy before the API server that DescribeCluster returns: it forwards all requests except those that shall fail.

It uses the API server's own certificate, so clients need no other CA. It forwards bearer tokens, and reads the caller
from them: an EKS token is a presigned request to STS, with the access key in it.

>>> action("PATCH", "/apis/karpenter.sh/v1/nodeclaims/default-a/status")
'PATCH nodeclaims/status'
>>> action("GET", "/api/v1/nodes"), action("GET", "/api/v1/namespaces/default/pods/web-1")
('LIST nodes', 'GET pods')
>>> action("POST", "/api/v1/namespaces/default/pods/web-1/binding"), action("GET", "/api/v1/namespaces/default")
('POST pods/binding', 'GET namespaces')
"""

import base64
import json
import logging
import socket
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import urllib3

from joiner.adapters.tls import client_context
from joiner_local.aws.fault_injection.fault_rules import ANSWER_LOST, REFUSED, SLOW, THROTTLED, FaultRules
from joiner_local.aws.tls_http_server import TlsHttpServer, TlsRequestHandler

log = logging.getLogger(__name__)

TOKEN: Final = "Bearer k8s-aws-v1."  # noqa: S105 - how every EKS token begins
PASSED_ON: Final = ("content-type", "retry-after", "warning", "audit-id", "content-encoding")
FORBIDDEN: Final = json.dumps(
    {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "on purpose",
        "reason": "Forbidden",
        "code": 403,
    }
).encode()

TOO_MANY: Final = b"Too many requests, please try again later.\n"
"""The answer of API priority and fairness has no Status object."""


def action(method: str, path: str) -> str:
    """Return what a request does, without names of objects."""
    parts = path.strip("/").split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    kind, name, *subresource = [*parts, "", ""][: max(len(parts), 2)]
    verb = "LIST" if method == "GET" and not name else method
    return f"{verb} {'/'.join([kind, *subresource])}"


def access_key(authorization: str) -> str:
    """Return the access key that signed an EKS token; empty for other credentials."""
    if not authorization.startswith(TOKEN):
        return ""
    encoded = authorization.removeprefix(TOKEN)
    url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode(errors="replace")
    return parse_qs(urlsplit(url).query).get("X-Amz-Credential", [""])[0].partition("/")[0]


@dataclass(slots=True)
class ApiServerProxy:
    """Serve on a port of 127.0.0.1 until the process ends. `pki` is the folder with the API server's certificate and
    its CA's.
    """

    endpoint: str
    pki: str
    rules: FaultRules
    url: str = field(init=False)
    _pool: urllib3.PoolManager = field(init=False)

    def __post_init__(self) -> None:
        folder = Path(self.pki)
        self._pool = urllib3.PoolManager(
            ssl_context=client_context((folder / "ca.crt").read_text()), maxsize=32, retries=False
        )
        self.url = _Server(self, folder).start("api-server-proxy")

    def pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> urllib3.BaseHTTPResponse:
        """Forward a request and return the API server's response unchanged."""
        answer = self._pool.request(
            method, self.endpoint + path, headers=headers, body=body, preload_content=False, timeout=60
        )
        answer.read(decode_content=False, cache_content=True)
        return answer


class _Handler(TlsRequestHandler):
    server: "_Server"

    def _do(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() not in ("host", "connection", "content-length")
        }
        fault, path, asked, caller = None, self.path, "", ""
        if not proxy.rules.idle:
            asked = f"kube {action(self.command, self.path.partition('?')[0])}"
            key = access_key(self.headers.get("authorization") or "")
            fault = proxy.rules.meet(key, asked)
            caller = proxy.rules.callers.name(key)
            path = proxy.rules.pages.of_list(self.path, caller, asked)
        if fault is not None and fault.how == REFUSED:
            self._answer(403, {"content-type": "application/json"}, FORBIDDEN)
            return
        if fault is not None and fault.how == THROTTLED:
            self._answer(429, {"content-type": "text/plain", "retry-after": "1"}, TOO_MANY)
            return
        if fault is not None and fault.how == SLOW:
            time.sleep(fault.after)
        if fault is None or fault.how in (ANSWER_LOST, SLOW):
            answer = proxy.pass_on(self.command, path, headers, body)
            if fault is None or fault.how == SLOW:
                if answer.status == HTTPStatus.OK:
                    proxy.rules.pages.answered(caller, asked, answer.data)
                passed_on = {name: value for name, value in answer.headers.items() if name.lower() in PASSED_ON}
                self._answer(answer.status, passed_on, answer.data)
                return
        time.sleep(fault.after)
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do


class _Server(TlsHttpServer):
    def __init__(self, proxy: ApiServerProxy, certificates: Path) -> None:
        self.proxy = proxy
        super().__init__(_Handler, certificates / "apiserver.crt", certificates / "apiserver.key")
