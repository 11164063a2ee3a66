"""Lists in small pages: a client that reads only the first page misses objects in a small account and cluster, too.

Knob: `POST /_local/faults/pages {"size": 2}`; 0 ends it. Answers `paged`: the callers and their calls that got more
than one page since the last call of the knob; and `unread`: those whose list of the API server had a further page that
they did not ask for, or no limit at all.

* The API server divides lists itself: a smaller `limit` is sent to it.
* EC2, IAM and EKS of the local AWS answer with all objects: the answer is cut here, and the token is the position. An
  answer has at most five pages, because each is made anew.
* DynamoDB, S3 and Step Functions divide lists themselves. A request to Step Functions that names the size of its pages
  is left as it is. Of BatchGetItem the first keys are processed; the others are returned in
  ``UnprocessedKeys``, as DynamoDB does if the answer exceeds 16 MB or the table is throttled.

Only actions that have a paginator in botocore's models are divided: AWS divides no others.
"""

import gzip
import io
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode
from xml.etree import ElementTree

from joiner_local.knob_requests import read_whole

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

MOST_PAGES: Final = 5
TOKEN: Final = "position-"  # noqa: S105 - of a page
EKS_LISTS: Final = {"access-entries": "accessEntries", "access-policies": "associatedAccessPolicies"}
"""The end of the path of a list of EKS, and its field in the answer."""
STATES_LISTS: Final = ("GetExecutionHistory", "ListExecutions")
BATCH: Final = "BatchGetItem"
GZIP: Final = b"\x1f\x8b"


@dataclass(slots=True)
class SmallPages:
    """The size of pages, 0 for the services' own, and which calls got several."""

    size: int = 0
    _paged: set[tuple[str, str]] = field(default_factory=set)
    _unlimited: set[tuple[str, str]] = field(default_factory=set)
    _further: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Continue tokens that no request has named yet, with the call that got each."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def set(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Knob: set the size."""
        with self._lock:
            paged, self._paged = sorted(self._paged), set()
            unread = sorted({*self._unlimited, *self._further.values()})
            self._unlimited, self._further = set(), {}
            self.size = read_whole(asked, "size")
        return {"paged": paged, "unread": unread}

    def of_list(self, path: str, caller: str, call: str) -> str:
        """Return the path and query of a list of the API server, with the size as its limit."""
        before, _, query = path.partition("?")
        if not self.size or not call.startswith("kube LIST"):
            return path
        asked = dict(parse_qsl(query))
        if "limit" not in asked:
            with self._lock:
                self._unlimited |= {(caller, call)} if caller else set()
            return path
        if "continue" in asked:
            self._note(caller, call)
            with self._lock:
                self._further.pop(asked["continue"], None)
        return f"{before}?{urlencode({**asked, 'limit': str(self.size)})}"

    def answered(self, caller: str, call: str, answer: bytes) -> None:
        """Note the further page that an answer of the API server names."""
        if not self.size or not caller or not call.startswith("kube LIST"):
            return
        content = json.loads(gzip.decompress(answer) if answer.startswith(GZIP) else answer)
        if token := content.get("metadata", {}).get("continue"):
            with self._lock:
                self._further[token] = (caller, call)

    def serve(
        self,
        app: "WSGIApplication",
        environ: "WSGIEnvironment",
        start_response: "StartResponse",
        call: str,
        body: bytes,
        *,
        caller: str,
    ) -> Iterable[bytes]:
        """Serve a request to an AWS service, its list in pages."""
        service, action = call.split(" ", 1)
        divided = action.partition(" ")[0]
        asked = _Asked(app, environ)
        if service == "s3":
            asked.query(lambda query: {**query, "max-keys": str(self.size)} if "list-type" in query else query)
            answer = asked.answer(None)
            if b"<IsTruncated>true" in answer.body:
                self._note(caller, call)
        elif service == "dynamodb" and divided in ("Query", "Scan"):
            answer = asked.answer(json.dumps({**json.loads(body), "Limit": self.size}).encode())
            if b'"LastEvaluatedKey"' in answer.body:
                self._note(caller, call)
        elif service == "states" and divided in STATES_LISTS and b'"maxResults"' not in body:
            answer = asked.answer(json.dumps({**json.loads(body), "maxResults": self.size}).encode())
            if b'"nextToken"' in answer.body:
                self._note(caller, call)
        elif service == "dynamodb" and divided == BATCH:
            answer = self._batch(asked, body, self._noting(caller, call))
        elif service in ("ec2", "iam") and divided in _paginated(service):
            answer = self._xml(asked, body, "Marker" if service == "iam" else "NextToken", self._noting(caller, call))
        elif (
            service == "eks"
            and environ["REQUEST_METHOD"] == "GET"
            and (listed := EKS_LISTS.get(environ["PATH_INFO"].rpartition("/")[2]))
        ):
            answer = self._json(asked, listed, self._noting(caller, f"{call} {listed}"))
        else:
            return app(environ, start_response)
        return answer.send(start_response)

    def _note(self, caller: str, call: str) -> None:
        with self._lock:
            self._paged.add((caller, call))

    def _noting(self, caller: str, call: str) -> Callable[[], None]:
        return lambda: self._note(caller, call)

    def _part(self, total: int, token: str) -> tuple[int, int]:
        """Return the first and the end of the page with this token."""
        start = int(token.removeprefix(TOKEN)) if token else 0
        return start, start + max(self.size, ceil(total / MOST_PAGES))

    def _xml(self, asked: "_Asked", body: bytes, asked_by: str, note: Callable[[], None]) -> "_Answer":
        form = dict(parse_qsl(body.decode(), keep_blank_values=True))
        token = form.pop(asked_by, "")
        if token and not token.startswith(TOKEN):  # the service divides this list itself
            return asked.answer(body)
        answer = asked.answer(urlencode(form).encode())
        if answer.status != 200:
            return answer
        root = ElementTree.fromstring(answer.body)  # noqa: S314 - of the local AWS
        space = root.tag.partition("}")[0].strip("{")
        ElementTree.register_namespace("", space)
        name = f"{{{space}}}%s" if space else "%s"
        if any((found.text or "") for found in root.iter(name % "nextToken")):
            note()
            return answer
        for parent in root.iter():
            for items in parent:
                if {item.tag for item in items} not in ({name % "item"}, {name % "member"}):
                    continue
                start, end = self._part(len(items), token)
                rest = len(items) - end
                for item in [*list(items)[:start], *list(items)[end:]]:
                    items.remove(item)
                if rest > 0:
                    note()
                    fields = {"nextToken": f"{TOKEN}{end}"}
                    if asked_by == "Marker":
                        fields = {"IsTruncated": "true", "Marker": f"{TOKEN}{end}"}
                    for tag, text in fields.items():
                        for old in parent.findall(name % tag):
                            parent.remove(old)
                        ElementTree.SubElement(parent, name % tag).text = text
                answer.body = ElementTree.tostring(root)
                return answer
        return answer

    def _json(self, asked: "_Asked", listed: str, note: Callable[[], None]) -> "_Answer":
        token: list[str] = []

        def own(query: dict[str, str]) -> dict[str, str]:
            token.append(query.pop("nextToken", ""))
            return query

        asked.query(own)
        answer = asked.answer(None)
        if answer.status == 200:
            response = json.loads(answer.body)
            start, end = self._part(len(response[listed]), token[0])
            if end < len(response[listed]):
                note()
                response["nextToken"] = f"{TOKEN}{end}"
            answer.body = json.dumps({**response, listed: response[listed][start:end]}).encode()
        return answer

    def _batch(self, asked: "_Asked", body: bytes, note: Callable[[], None]) -> "_Answer":
        wanted = json.loads(body)
        left: dict[str, Any] = {}
        for table, request in wanted["RequestItems"].items():
            if rest := request["Keys"][self.size :]:
                left[table] = {**request, "Keys": rest}
                request["Keys"] = request["Keys"][: self.size]
        answer = asked.answer(json.dumps(wanted).encode())
        if answer.status == 200 and left:
            note()
            answer.body = json.dumps({**json.loads(answer.body), "UnprocessedKeys": left}).encode()
        return answer


@dataclass(slots=True)
class _Answer:
    """A whole response."""

    status_line: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def status(self) -> int:
        return int(self.status_line.split()[0])

    def send(self, start_response: "StartResponse") -> Iterable[bytes]:
        kept = [(name, value) for name, value in self.headers if name.lower() not in CHANGED]
        start_response(self.status_line, [*kept, ("Content-Length", str(len(self.body)))])
        return [self.body]


CHANGED: Final = ("content-length", "x-amz-crc32")
"""Headers that depend on the body."""


@dataclass(slots=True)
class _Asked:
    """A request that is changed before it is served."""

    app: "WSGIApplication"
    environ: "WSGIEnvironment"

    def query(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        asked = dict(parse_qsl(self.environ.get("QUERY_STRING", ""), keep_blank_values=True))
        self.environ["QUERY_STRING"] = urlencode(change(asked))

    def answer(self, body: bytes | None) -> _Answer:
        """Serve the request, with another body if one is given."""
        if body is not None:
            self.environ["wsgi.input"] = io.BytesIO(body)
            self.environ["CONTENT_LENGTH"] = str(len(body))
        begun: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, headers: list[tuple[str, str]], _: Any = None) -> Callable[[bytes], object]:
            begun.append((status, headers))
            return lambda _: None

        served = b"".join(self.app(self.environ, start))
        (status, headers) = begun[0]
        return _Answer(status, list(headers), served)


@cache
def _paginated(service: str) -> frozenset[str]:
    """Return the actions of a service that have a paginator."""
    from botocore.loaders import Loader

    return frozenset(Loader().load_service_model(service, "paginators-1")["pagination"])
