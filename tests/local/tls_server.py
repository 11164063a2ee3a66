"""A TLS server that responds like an API server, and records the request headers after each successful handshake."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from joiner_local.control_plane.pki import KeyPair


@dataclass
class TlsServer:
    """The server's address, and the Authorization headers that it received."""

    port: int = 0
    tokens: list[str] = field(default_factory=list)


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore refused handshakes: these tests cause them."""


@contextmanager
def serving(pair: KeyPair) -> Iterator[TlsServer]:
    """Serve on a port of loopback until the block ends."""
    seen = TlsServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.tokens.append(self.headers.get("authorization", ""))
            body = json.dumps({"items": [], "metadata": {}}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server = _Quiet(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    seen.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
