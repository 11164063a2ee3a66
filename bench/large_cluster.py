"""A large cluster without its cost: objects as long as real ones, generated when a page is requested, and an API
server that serves them.

A node has 25 pods; a tenth of them belong to daemon sets. `bench.cluster_manifests` has the objects.
"""

import json
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from bench.cluster_manifests import FEW, claim, node, pod
from joiner_local.control_plane.pki import CertificateAuthority

Refusal = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body of a response."""

NAME: Final = b"NUMBER"
DAEMONS: Final = 10
"""Every tenth pod of a node belongs to a daemon set."""
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")
APPS: Final = 200


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """The size of a cluster: `pods` in total, of which `pending` are unschedulable. `ended` pods are added to the
    total. The last `booting` nodes have the taint joiner.dev/filling and wait for pods."""

    pods: int = 10_000
    pending: int = 0
    ended: int = 0
    pods_a_node: int = 25
    booting: int = 0

    @property
    def running(self) -> int:
        """Return the number of pods that have a node."""
        return self.pods - self.pending

    @property
    def ready(self) -> int:
        """Return the number of nodes that run pods."""
        return max(1, self.running // self.pods_a_node)

    @property
    def nodes(self) -> int:
        """Return the number of nodes, ready and booting."""
        return self.ready + self.booting


class Objects:
    """The objects of a cluster, by plural name; objects that were written are stored."""

    def __init__(self, shape: ClusterShape) -> None:
        self.shape = shape
        moment = datetime.now(UTC)
        old, new = (f"{moment - timedelta(minutes=age):%Y-%m-%dT%H:%M:%SZ}" for age in (60, 1))
        self._running = [json.dumps(pod(kind)).encode() for kind in range(APPS)]
        self._pending = [json.dumps(pod(kind, "Pending")).encode() for kind in range(1, APPS)]
        self._ended = json.dumps(pod(1, "Succeeded")).encode()
        self._nodes = [
            json.dumps(node(closed=closed, created=new if closed else old)).encode() for closed in (False, True)
        ]
        self._claims = [
            json.dumps(claim(closed=closed, since=new if closed else old)).encode() for closed in (False, True)
        ]
        self.written: dict[str, dict[str, Any]] = {}

    def listed(self, plural: str, fields: str) -> tuple[int, Callable[[int], bytes]]:
        """Return how many objects a list request finds, and a function that generates each of them."""
        if plural == "pods":
            found = self._pods(fields)
            return len(found), lambda n: self._pod(*found[n])
        if plural in {"nodes", "nodeclaims"}:
            kinds = self._nodes if plural == "nodes" else self._claims
            return self.shape.nodes, lambda n: self._of(kinds, n)
        few = FEW.get(plural, ())
        return len(few), lambda n: json.dumps(few[n]).encode()

    def one(self, plural: str, name: str) -> bytes:
        """Return one node or claim as last written; empty for other kinds."""
        if name in self.written:
            return json.dumps(self.written[name]).encode()
        made = {"nodes": self._nodes, "nodeclaims": self._claims}.get(plural)
        return self._of(made, int(name.rpartition("-")[2])) if made else b""

    @cache  # noqa: B019  # one for each process
    def _pods(self, fields: str) -> list[tuple[str, int]]:
        node_name = next(
            (each.partition("=")[2] for each in fields.split(",") if each.startswith("spec.nodeName=")), ""
        )
        if node_name:
            index = int(node_name.rpartition("-")[2])
            return [
                ("running", n) for n in range(index, self.shape.running, self.shape.ready) if index < self.shape.ready
            ]
        ended = 0 if "status.phase!=Succeeded" in fields else self.shape.ended
        counts = {"running": self.shape.running, "pending": self.shape.pending, "ended": ended}
        return [(phase, n) for phase, count in counts.items() for n in range(count)]

    def _pod(self, phase: str, number: int) -> bytes:
        if phase == "pending":
            made = self._pending[number % len(self._pending)]
            return made.replace(NAME, b"%08d" % (number + self.shape.running))
        home = number % self.shape.ready
        daemon = (number // self.shape.ready) % DAEMONS == 0
        made = self._ended if phase == "ended" else self._running[0 if daemon else 1 + number % (APPS - 1)]
        return made.replace(NAME, b"%08d" % (number + (10_000_000 if phase == "ended" else 0))).replace(
            b"NODE", b"node-%08d" % home
        )

    def _of(self, kinds: list[bytes], number: int) -> bytes:
        name = f"{'node' if kinds is self._nodes else 'default'}-{number:08d}"
        if name in self.written:
            return json.dumps(self.written[name]).encode()
        made = kinds[number >= self.shape.ready]
        return made.replace(NAME, b"%08d" % number).replace(b"ZONE", ZONES[number % 3].encode())


class StandIn:
    """An API server of one cluster on its own port. `asked` are the requests; `refuse` may return a response in place
    of the server."""

    def __init__(
        self,
        shape: ClusterShape,
        refuse: Callable[[str, Mapping[str, str]], Refusal | None] = lambda _path, _query: None,
    ) -> None:
        self.objects = Objects(shape)
        self.asked: list[tuple[str, str, Mapping[str, str]]] = []
        self.refuse = refuse
        self._folder = tempfile.TemporaryDirectory(prefix="joiner-bench-")
        authority = CertificateAuthority(Path(self._folder.name), now=datetime.now(UTC))
        pair = authority.server("api", "127.0.0.1")
        self.ca = authority.certificate.read_text(encoding="ascii")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        """Return the URL of the simulated API server."""
        return f"https://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop the server and remove its certificate."""
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any]) -> Refusal:
        """Return status, headers and body."""
        self.asked.append((method, path, query))
        refused = self.refuse(path, query)
        if refused is not None:
            return refused
        parts = [part for part in path.split("/") if part][2 if path.startswith("/api/") else 3 :]
        if parts[0] == "namespaces" and len(parts) > 2:
            parts = parts[2:]
        plural, name = parts[0], parts[1] if len(parts) > 1 else ""
        if method == "GET" and not name:
            return 200, {}, self._page(plural, query)
        return self._one(method, plural, name, body)

    def _page(self, plural: str, query: Mapping[str, str]) -> bytes:
        count, make = self.objects.listed(plural, query.get("fieldSelector", ""))
        start, limit = int(query.get("continue") or 0), int(query.get("limit") or count or 1)
        end = start + limit
        following = str(end) if end < count else ""
        items = b",".join(make(n) for n in range(start, min(end, count)))
        return b'{"kind":"List","metadata":{"resourceVersion":"1","continue":"%s"},"items":[%s]}' % (
            following.encode(),
            items,
        )

    def _one(self, method: str, plural: str, name: str, body: Mapping[str, Any]) -> Refusal:
        if method == "POST" and plural not in {"nodes", "nodeclaims"}:
            return 201, {}, json.dumps(body).encode()  # an event, a binding, an eviction
        if method == "POST":
            made = json.loads(json.dumps(body))
            made["metadata"] |= {"uid": f"uid-{made['metadata']['name']}", "resourceVersion": "1"}
            self.objects.written[made["metadata"]["name"]] = made
            return 201, {}, json.dumps(made).encode()
        there = json.loads(self.objects.one(plural, name) or b"{}")
        if not there:
            return (200, {}, b"{}") if method != "GET" else (404, {}, b'{"reason":"NotFound"}')
        if method == "PATCH":
            there = _merged(there, body)
            self.objects.written[name] = there
        return 200, {}, json.dumps(there).encode()


def _merged(present: Any, changes: Any) -> Any:
    """Apply a merge patch (RFC 7386)."""
    if not isinstance(changes, Mapping):
        return changes
    after = dict(present) if isinstance(present, Mapping) else {}
    return {
        **after,
        **{name: _merged(after.get(name), value) for name, value in changes.items() if name != "resourceVersion"},
    }


def _handler(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            status, headers, response = stand_in.answer(
                self.command, url.path, query, body if isinstance(body, dict) else {}
            )
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(response)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(response)

        do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _serve  # the names that the server calls

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing, because the benchmark prints a table."""

    return Handler
