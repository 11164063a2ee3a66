"""The Lambda Runtime API, from the service's side: one small HTTP server for each sandbox, on loopback.

``GET /2018-06-01/runtime/invocation/next`` returns work, ``POST …/invocation/ID/response`` and ``…/error`` report its
result, ``POST …/init/error`` reports that the handler could not be imported ("Using the Lambda runtime API for custom
runtimes").
"""

import json
import queue
import threading
import time
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

API = "/2018-06-01/runtime"
LARGEST_RESPONSE = 6_291_556  # bytes


@dataclass(slots=True)
class Invocation:
    """One invocation in a sandbox. The first result counts."""

    request_id: str
    payload: bytes
    arn: str
    client_context: str | None = None
    deadline: float = 0.0  # epoch seconds
    started: float = 0.0  # monotonic
    done: threading.Event = field(default_factory=threading.Event)
    response: bytes = b""
    error: bytes | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def respond(self, body: bytes) -> None:
        if len(body) > LARGEST_RESPONSE:
            answer = f"Response payload size exceeded maximum allowed payload size ({LARGEST_RESPONSE} bytes)."
            self.fail(failure("Function.ResponseSizeTooLarge", answer))
            return
        with self._lock:
            if not self.done.is_set():
                self.response = body
                self.done.set()

    def fail(self, body: bytes) -> None:
        with self._lock:
            if not self.done.is_set():
                self.error = body
                self.done.set()

    def kill(self, body: bytes) -> None:
        """Fail as `fail` does, even if the function has responded: its process ended before the response was
        complete.
        """
        with self._lock:
            self.error = body
            self.done.set()


def failure(kind: str, message: str) -> bytes:
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()


class RuntimeApi:
    """The endpoint of one sandbox. `ready` is set when the runtime requests work, or has failed to start."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._queue: queue.SimpleQueue[Invocation | None] = queue.SimpleQueue()
        self.current: Invocation | None = None
        self.ready = threading.Event()
        self.ready_at = 0.0  # monotonic
        self.init_error: bytes | None = None
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.5}, name="runtime-api", daemon=True
        ).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def give(self, work: Invocation) -> None:
        self._queue.put(work)

    def next_work(self) -> Invocation | None:
        """Block the runtime until there is work; None when the sandbox is retired."""
        if not self.ready.is_set():
            self.ready_at = time.monotonic()
            self.ready.set()
        work = self._queue.get()
        if work is not None:
            work.started = time.monotonic()
            work.deadline = time.time() + self._timeout
            self.current = work
        return work

    def failed_to_start(self, body: bytes) -> None:
        self.init_error = body
        self.ready.set()

    def retire(self) -> None:
        self._queue.put(None)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 16

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of the connection: the peer was killed within a request."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One write for head and body: otherwise each response waits 40 ms for a delayed acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True
    api: RuntimeApi

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.rstrip("/") != f"{API}/invocation/next":
            self._reply(404)
            return
        work = self.api.next_work()
        if work is None:
            self.close_connection = True
            return
        headers = {
            "Lambda-Runtime-Aws-Request-Id": work.request_id,
            "Lambda-Runtime-Deadline-Ms": str(int(work.deadline * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": work.arn,
            "Lambda-Runtime-Trace-Id": f"Root=1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]};"
            f"Parent={uuid.uuid4().hex[:16]};Sampled=0",
            "Content-Type": "application/json",
        }
        if work.client_context:
            headers["Lambda-Runtime-Client-Context"] = work.client_context
        self._reply(200, work.payload, headers)

    def do_POST(self) -> None:
        body, path = self._body(), self.path.rstrip("/")
        if path == f"{API}/init/error":
            self.api.failed_to_start(body)
            self._reply(202, b'{"status":"OK"}')
            return
        work = self.api.current
        match path.removeprefix(API).strip("/").split("/"):
            case ["invocation", request_id, "response"] if work is not None and request_id == work.request_id:
                work.respond(body)
            case ["invocation", request_id, "error"] if work is not None and request_id == work.request_id:
                work.fail(body)
            case _:
                self._reply(400, b'{"errorType":"InvalidRequestID"}')
                return
        self._reply(202, b'{"status":"OK"}')

    def _reply(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)
