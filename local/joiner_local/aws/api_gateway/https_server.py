"""The TLS server in front of the HTTP APIs. It knows sockets and bytes, but nothing of API Gateway."""

import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from joiner_local.aws.api_gateway.http_api_routes import INTERNAL_ERROR, HttpRequest, HttpResponse
from joiner_local.aws.api_gateway.tls_certificates import Certificates
from joiner_local.aws.tls_http_server import TlsHttpServer, TlsRequestHandler

log = logging.getLogger(__name__)

LARGEST_BODY = 10 * 1024 * 1024  # bytes; API Gateway's quota


@dataclass(frozen=True, slots=True)
class ServerFault:
    """An injected fault of every response: `delay` in seconds, another status and body, or a closed connection."""

    delay: float = 0.0  # seconds
    status: int | None = None
    body: str = ""
    hang_up: bool = False


class HttpsServer:
    """Serve HTTPS on a port of 127.0.0.1 until the process ends. `handle` gets the request with its whole path."""

    def __init__(self, certificates: Certificates, handle: Callable[[HttpRequest], HttpResponse]) -> None:
        self.certificates, self.handle = certificates, handle
        self.fault: ServerFault | None = None
        self.answers: Counter[str] = Counter()
        self._server = _Server(self)
        self.url = self._server.start("https-server")

    def answer(self, asked: HttpRequest) -> HttpResponse | None:
        """Return the response; None closes the connection without one."""
        fault = self.fault
        if fault is not None:
            time.sleep(fault.delay)
            if fault.hang_up:
                return None
            if fault.status is not None:
                return HttpResponse(fault.status, fault.body.encode())
        if len(asked.body) > LARGEST_BODY:
            return HttpResponse.message(413, "Request Entity Too Large")
        try:
            return self.handle(asked)
        except Exception:
            log.exception("%s %s", asked.method, asked.path)
            return INTERNAL_ERROR

    def close(self) -> None:
        self._server.server_close()


class _Handler(TlsRequestHandler):
    server: "_Server"

    def _do(self) -> None:
        api = self.server.api
        path, _, query = self.path.partition("?")
        headers: dict[str, str] = {}
        for name, value in self.headers.items():
            low = name.lower()
            headers[low] = f"{headers[low]},{value}" if low in headers else value
        body = self.rfile.read(int(headers.get("content-length") or 0))
        answered = api.answer(HttpRequest(self.command, path, query, headers, body, self.request_version))
        if answered is None:
            api.answers["hung up"] += 1
            self.close_connection = True
            return
        api.answers[str(answered.status)] += 1
        try:
            self._send(answered)
        except OSError:  # the caller closed the connection
            api.answers["gone"] += 1
            self.close_connection = True

    def _send(self, answered: HttpResponse) -> None:
        self.send_response_only(answered.status)
        for name, value in answered.headers.items():
            for each in value if isinstance(value, list) else [value]:
                if name != "content-length":
                    self.send_header(name, each)
        self.send_header("content-length", str(len(answered.body)))
        self.send_header("apigw-requestid", uuid.uuid4().hex[:16])
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answered.body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _do


class _Server(TlsHttpServer):
    def __init__(self, api: HttpsServer) -> None:
        self.api = api
        super().__init__(_Handler, api.certificates.server, api.certificates.key)
