"""The agent's knobs, over HTTP on loopback, in the form of the local AWS's: `POST /_local/NAME` with a JSON object,
`GET /_local/`.
"""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joiner_local.knob_requests import Knob, answer_knob

PREFIX = "/_local/"


class _Handler(BaseHTTPRequestHandler):
    knobs: Mapping[str, Knob]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self.path == PREFIX:
            self._answer(200, {"knobs": sorted(self.knobs)})
        else:
            self._answer(404, {"error": f"nothing to read at {self.path}"})

    def do_POST(self) -> None:
        knob = self.knobs.get(self.path.removeprefix(PREFIX).strip("/"))
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if knob is None:
            self._answer(404, {"error": f"no knob {self.path}", "knobs": sorted(self.knobs)})
            return
        self._answer(*answer_knob(knob, body))

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def serve(knobs: Mapping[str, Knob]) -> str:
    """Serve until the process ends. Returns the address."""
    handler = type("Handler", (_Handler,), {"knobs": knobs})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="knobs", daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"
