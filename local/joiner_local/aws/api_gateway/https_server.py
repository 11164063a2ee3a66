"""The TLS server in front of the HTTP APIs. It knows sockets and bytes, but nothing of API Gateway."""

import logging
import ssl
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any

from joiner_local.aws.api_gateway.http_api_routes import INTERNAL_ERROR, HttpRequest, HttpResponse
from joiner_local.aws.api_gateway.tls_certificates import Certificates

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
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server, certificates.key)
        self._server = _Server(self, context)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True, name="https-door").start()

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


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one write for each response
    disable_nagle_algorithm = True
    timeout = 300

    def _do(self) -> None:
        door = self.server.door
        path, _, query = self.path.partition("?")
        headers: dict[str, str] = {}
        for name, value in self.headers.items():
            low = name.lower()
            headers[low] = f"{headers[low]},{value}" if low in headers else value
        body = self.rfile.read(int(headers.get("content-length") or 0))
        answered = door.answer(HttpRequest(self.command, path, query, headers, body, self.request_version))
        if answered is None:
            door.answers["hung up"] += 1
            self.close_connection = True
            return
        door.answers[str(answered.status)] += 1
        try:
            self._send(answered)
        except OSError:  # the caller closed the connection
            door.answers["gone"] += 1
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

    def log_message(self, *_: Any) -> None:
        """Log nothing: there would be a line for every request."""

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _do


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, door: HttpsServer, context: ssl.SSLContext) -> None:
        self.door, self.context = door, context
        super().__init__(("127.0.0.1", 0), _Handler)

    def finish_request(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        assert isinstance(request, socket)
        with self.context.wrap_socket(
            request, server_side=True
        ) as connection:  # the handshake runs in the request's thread
            _Handler(connection, client_address, self)

    def handle_error(self, *_: Any) -> None:
        log.debug("door", exc_info=True)
