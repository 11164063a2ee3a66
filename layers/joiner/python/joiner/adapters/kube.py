"""The API server of one cluster: read, write, bind, evict, publish events.

The official client's `Configuration` and REST client provide TLS, pooling and keep-alive. Its models are not used,
because they take minutes and gigabytes at 50,000 pods. msgspec decodes answers into plain manifests, which other
packages turn into values. Lists are decoded page by page into the fields that are read (`kube_lists`,
`joiner.cluster.list_pages`).
"""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec
import urllib3

from joiner.adapters.kube_errors import Unreachable, error_of
from joiner.adapters.kube_kinds import KINDS, PODS, Kind
from joiner.adapters.kube_lists import Lister
from joiner.adapters.lean_imports import unopened
from joiner.adapters.tls import client_context
from joiner.adapters.tokens import TokenSource
from joiner.cluster.list_pages import Packed
from joiner.cluster.node_shards import shard_of
from joiner.names import FIELD_MANAGER, LEAVING, NODE_OF_POD, PLACED

with unopened("kubernetes", "kubernetes.client", "kubernetes.utils"):
    from kubernetes.client.configuration import Configuration
    from kubernetes.client.exceptions import ApiException
    from kubernetes.client.rest import RESTClientObject

Manifest = dict[str, Any]
Manifests = list[Manifest]
Page = list[Mapping[str, Any]]
Kept = TypeVar("Kept")

JSON: Final = "application/json"
CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 20.0
POOLED: Final = 32  # connections kept open: pods are bound by 16 threads while 8 others register nodes

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

# Only reads are sent twice: a write without an answer may have taken effect, and its caller decides what that means. An
# answer with Retry-After is not retried here: `kube_lists` and the state machine wait, within their limits.
_RETRIES: Final = urllib3.Retry(
    total=2,
    connect=2,
    read=1,
    redirect=0,
    status=0,
    allowed_methods=frozenset({"GET"}),
    respect_retry_after_header=False,
)


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to connect to one cluster: its endpoint, its CA (PEM text) and the caller's identity: a token, or a client
    certificate (local clusters).
    """

    endpoint: str
    ca: str
    tokens: TokenSource | None = field(default=None, repr=False)
    certificate_file: str = ""
    key_file: str = ""


class KubeResponse(NamedTuple):
    """An answer of the API server; `retry_after` is the header of that name, empty if absent."""

    status: int
    body: bytes
    retry_after: str


class Kube:
    """One cluster's API server, as this identity may use it. Safe for several threads."""

    def __init__(self, access: ClusterAccess) -> None:
        context = client_context(access.ca, certificate_file=access.certificate_file, key_file=access.key_file)
        settings = Configuration(host=access.endpoint, connection_pool_maxsize=POOLED, retries=_RETRIES)
        self._endpoint = access.endpoint.rstrip("/")
        self._tokens = access.tokens
        self._seconds = READ_SECONDS
        self._rest = RESTClientObject(settings)
        # The client's settings have no field for an SSL context, and urllib3 creates a strict one since Python 3.13
        # (see `tls`).
        self._rest.pool_manager.connection_pool_kw["ssl_context"] = context

    def within(self, seconds: float) -> "Kube":
        """Return this API server for optional requests, which wait so long for an answer."""
        hurried = copy.copy(self)
        hurried._seconds = seconds
        return hurried

    def renew_token(self) -> None:
        """Sign a new token: the API server may cache the permissions of the last one for minutes."""
        if self._tokens is not None:
            self._tokens.token(fresh=True)

    def list(
        self, kind: Kind, *, namespace: str = "", labels: str = "", fields: str = "", consistent: bool = False
    ) -> Manifests:
        """Return all objects of a kind, with the fields that `joiner.cluster.list_pages` keeps.

        Every object that exists during the whole call is in the list once. With `consistent`, all objects are of one
        version, or `Expired` is raised.
        """
        pages = self._pages(
            kind, _plain, kind.path(namespace=namespace), _selectors(labels, fields), consistent=consistent
        )
        return [each for page in pages for each in page]

    def packed(self, kind: Kind, *, labels: str = "", fields: str = "", consistent: bool = False) -> Packed:
        """Return the objects as `list` does, but as JSON: for kinds with many objects."""
        return Packed(self._pages(kind, Packed.pack, kind.path(), _selectors(labels, fields), consistent=consistent))

    def list_metadata(self, kind: Kind, *, labels: str = "") -> Manifests:
        """Return only the metadata of each object that `list` returns."""
        pages = self._pages(kind, _plain, kind.path(), _selectors(labels, ""), accept=METADATA_ONLY)
        return [each for page in pages for each in page]

    def _pages(
        self,
        kind: Kind,
        keep: Callable[[Page], Kept],
        path: str,
        query: Mapping[str, str],
        *,
        consistent: bool = False,
        accept: str = JSON,
    ) -> Sequence[Kept]:
        lister = Lister(lambda asked: self.read(path, query=asked, accept=accept), time.sleep)
        return lister.read(kind.plural, query, keep, consistent=consistent)

    def get(self, kind: Kind, name: str, *, namespace: str = "") -> Manifest:
        """Return one object; `NotFound` if it does not exist."""
        return self.ask("GET", kind.path(name, namespace=namespace))

    def create(
        self, kind: Kind, manifest: Mapping[str, Any], *, namespace: str = "", dry_run: bool = False
    ) -> Manifest:
        """Create an object; `AlreadyExists` if its name is taken. A dry run only checks whether it could be created."""
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        query = {"fieldManager": FIELD_MANAGER, **({"dryRun": "All"} if dry_run else {})}
        return self.ask("POST", kind.path(namespace=namespace), body, query=query)

    def replace(
        self, kind: Kind, manifest: Mapping[str, Any], *, namespace: str = "", subresource: str = ""
    ) -> Manifest:
        """Replace the whole object; `Conflict` if its resourceVersion is not the newest."""
        name = str(manifest["metadata"]["name"])
        return self.ask("PUT", kind.path(name, namespace=namespace, subresource=subresource), dict(manifest))

    def patch(
        self,
        kind: Kind,
        name: str,
        changes: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> Manifest:
        """Send a merge patch (an object) or a JSON patch (a list of operations).

        A merge patch that names ``metadata.resourceVersion`` is refused with `Conflict` if the object changed
        meanwhile.
        """
        merge = isinstance(changes, Mapping)
        return self.ask(
            "PATCH",
            kind.path(name, namespace=namespace, subresource=subresource),
            dict(changes) if isinstance(changes, Mapping) else list(changes),
            query={"fieldManager": FIELD_MANAGER},
            content_type=MERGE_PATCH if merge else JSON_PATCH,
        )

    def apply(
        self,
        manifest: Mapping[str, Any],
        *,
        field_manager: str = FIELD_MANAGER,
        force: bool = True,
        subresource: str = "",
    ) -> Manifest:
        """Apply one manifest by server-side apply. Raises KeyError if its kind is not in `KINDS`."""
        kind = KINDS.get((str(manifest["apiVersion"]), str(manifest["kind"])))
        if kind is None:
            raise KeyError(f"{manifest['kind']} of {manifest['apiVersion']} is not among the kinds that Joiner writes")
        metadata = manifest["metadata"]
        return self.ask(
            "PATCH",
            kind.path(metadata["name"], namespace=metadata.get("namespace", ""), subresource=subresource),
            dict(manifest),
            query={"fieldManager": field_manager, "force": str(force).lower()},
            content_type=APPLY_PATCH,
        )

    def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
    ) -> Manifest:
        """Delete an object; `Conflict` if it is not the one that `uid` and `resource_version` name. `grace` in seconds
        is for pods: 0 deletes the object without confirmation that its containers have ended.
        """
        preconditions = ({"uid": uid} if uid else {}) | (
            {"resourceVersion": resource_version} if resource_version else {}
        )
        body: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions"} | (
            {"preconditions": preconditions} if preconditions else {}
        )
        body |= {"gracePeriodSeconds": grace} if grace is not None else {}
        return self.ask("DELETE", kind.path(name, namespace=namespace), body)

    def bind(self, namespace: str, pod: str, node: str, *, uid: str) -> None:
        """Bind a pod to a node; `Conflict` if it is bound already, is being deleted, or has another uid."""
        metadata: Manifest = {"name": pod, "namespace": namespace, "uid": uid, "labels": {PLACED: shard_of(node)}}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self.ask("POST", PODS.path(pod, namespace=namespace, subresource="binding"), body)

    def evict(self, namespace: str, pod: str, *, node: str, uid: str = "") -> None:
        """Evict a pod from `node`; `EvictionBlocked` while a PodDisruptionBudget does not allow it.

        The label and the node's name are for the admission policies: an Eviction does not contain the pod's node
        otherwise.
        """
        metadata: Manifest = {
            "name": pod,
            "namespace": namespace,
            "labels": {LEAVING: "true"},
            "annotations": {NODE_OF_POD: node},
        }
        body: Manifest = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        if uid:
            body["deleteOptions"] = {"preconditions": {"uid": uid}}
        self.ask("POST", PODS.path(pod, namespace=namespace, subresource="eviction"), body)

    def ask(
        self,
        method: str,
        path: str,
        body: Manifest | Sequence[Mapping[str, Any]] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Manifest:
        """Send one request; return its decoded answer, or raise one of our errors."""
        raw = self._answer(method, path, body, query, content_type=content_type, accept=accept)
        try:
            return dict(msgspec.json.decode(raw)) if raw else {}
        except (msgspec.DecodeError, TypeError) as reason:
            raise Unreachable("an answer that is no object", asked=f"{method} {path}") from reason

    def read(self, path: str, *, query: Mapping[str, str], accept: str = JSON) -> bytes:
        """Send one GET; return its raw answer, or raise one of our errors."""
        return self._answer("GET", path, None, query, accept=accept)

    def _answer(
        self,
        method: str,
        path: str,
        body: Manifest | Sequence[Mapping[str, Any]] | None,
        query: Mapping[str, str] | None,
        *,
        accept: str,
        content_type: str = JSON,
    ) -> bytes:
        answer = self._send(method, path, body, query, content_type, accept=accept, fresh=False)
        if answer.status == 401 and self._tokens is not None:  # the token's credentials expired: sign once more
            answer = self._send(method, path, body, query, content_type, accept=accept, fresh=True)
        if 200 <= answer.status < 300:
            return answer.body
        try:
            status = msgspec.json.decode(answer.body) if answer.body else {}
        except msgspec.DecodeError:
            status = {"message": answer.body[:200].decode(errors="replace")}
        raise error_of(
            answer.status, status if isinstance(status, dict) else {}, f"{method} {path}", answer.retry_after
        )

    def _send(
        self,
        method: str,
        path: str,
        body: Manifest | Sequence[Mapping[str, Any]] | None,
        query: Mapping[str, str] | None,
        content_type: str,
        *,
        accept: str,
        fresh: bool,
    ) -> "KubeResponse":
        headers = {"Accept": accept, "User-Agent": "joiner"}
        if body is not None:
            headers["Content-Type"] = content_type
        if self._tokens is not None:
            headers["Authorization"] = f"Bearer {self._tokens.token(fresh=fresh)}"
        url = self._endpoint + path + (f"?{urlencode(query)}" if query else "")
        try:
            answer = self._rest.request(
                method,
                url,
                headers=headers,
                body=body,
                _request_timeout=(min(CONNECT_SECONDS, self._seconds), self._seconds),
            )
            return KubeResponse(int(answer.status), bytes(answer.read()), str(answer.headers.get("Retry-After") or ""))
        except (ApiException, urllib3.exceptions.HTTPError) as reason:
            raise Unreachable(f"no answer ({type(reason).__name__})", asked=f"{method} {path}") from reason


def _plain(page: Page) -> Manifests:
    return [dict(each) for each in page]


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return ({"labelSelector": labels} if labels else {}) | ({"fieldSelector": fields} if fields else {})
