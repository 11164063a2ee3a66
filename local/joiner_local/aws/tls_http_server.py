"""An HTTPS server on a port of 127.0.0.1, with a thread for each connection."""

import logging
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from typing import Any

log = logging.getLogger(__name__)


class TlsRequestHandler(BaseHTTPRequestHandler):
    """The settings of a connection. A subclass answers requests in its `do_` methods."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one write for each response
    disable_nagle_algorithm = True
    timeout = 300

    def log_message(self, *_: Any) -> None:
        """Log nothing: there would be a line for every request."""


class TlsHttpServer(ThreadingHTTPServer):
    """A server with a certificate and its key. Errors of connections are logged at the level DEBUG."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler: type[TlsRequestHandler], certificate: str | Path, key: str | Path) -> None:
        self._handler = handler
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        super().__init__(("127.0.0.1", 0), handler)

    def start(self, thread: str) -> str:
        """Serve in a thread of this name until the process ends; return the URL."""
        threading.Thread(target=self.serve_forever, daemon=True, name=thread).start()
        return f"https://127.0.0.1:{self.server_address[1]}"

    def finish_request(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """Make the TLS handshake in the thread of the connection, and answer its requests."""
        assert isinstance(request, socket)
        with self._context.wrap_socket(request, server_side=True) as connection:
            self._handler(connection, client_address, self)

    def handle_error(self, *_: Any) -> None:
        log.debug("a connection failed", exc_info=True)
