"""The API server by its REST paths: what the stack and its tests read and write from outside, with any identity.

>>> str(ApiError(404, {"reason": "NotFound", "message": 'pods "a" not found'}))
'404 NotFound: pods "a" not found'
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import urllib3

from joiner.adapters.tls import client_context
from joiner_local.control_plane.kubeconfig import ApiServerEndpoint
from joiner_local.control_plane.pki import KeyPair

Object = dict[str, Any]

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"  # lists of conditions are merged by type
TOO_MANY_REQUESTS = 429
APPLY = "application/apply-patch+yaml"  # JSON is YAML


class ApiError(Exception):
    """The API server's Status of a failed request."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {body.get('reason', '')}: {body.get('message', body)}")
        self.status = status
        self.reason = str(body.get("reason", ""))
        self.body = body


class KubeApi:
    """One identity at one API server: a client certificate, a bearer token, or anonymous. Threads may share it."""

    def __init__(
        self,
        endpoint: ApiServerEndpoint,
        *,
        pair: KeyPair | None = None,
        token: str | None = None,
        connections: int = 16,
    ) -> None:
        self._http = urllib3.PoolManager(
            ssl_context=client_context(
                endpoint.authority.read_text(),
                certificate_file=str(pair.certificate) if pair else "",
                key_file=str(pair.key) if pair else "",
            ),
            maxsize=connections,
            block=True,
            retries=False,
        )
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self.url = endpoint.url

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = JSON,
        timeout: float = 30.0,
    ) -> Object:
        """Send one request. Returns the object of the response; raises ApiError."""
        headers = {**self._headers, "accept": JSON} | ({"content-type": content_type} if body is not None else {})
        sent = None if body is None else json.dumps(body)
        answer = self._http.request(method, self.url + path, body=sent, headers=headers, timeout=timeout)
        is_json = answer.headers.get("content-type", "").startswith(JSON)
        content: Object = (
            msgspec.json.decode(answer.data) if is_json else {"text": answer.data.decode(errors="replace")}
        )
        if answer.status >= 400:
            raise ApiError(answer.status, content)
        return content

    def get(self, path: str, *, timeout: float = 30.0) -> Object:
        """Return one object or list. Retries while the server is not ready for it (the storage of a new kind), as
        client-go does.
        """
        for pause in (0.2, 0.5, 1.0, 2.0):
            try:
                return self.call("GET", path, timeout=timeout)
            except ApiError as error:
                if error.status != TOO_MANY_REQUESTS:
                    raise
            time.sleep(pause)
        return self.call("GET", path, timeout=timeout)

    def find(self, path: str) -> Object | None:
        """Return the object, or None if it does not exist."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def items(self, path: str) -> list[Object]:
        """Return the objects of a list."""
        found: list[Object] = self.get(path)["items"]
        return found

    def create(self, path: str, body: Mapping[str, Any]) -> Object:
        return self.call("POST", path, body)

    def merge(self, path: str, body: Mapping[str, Any]) -> Object:
        return self.call("PATCH", path, body, content_type=MERGE_PATCH)

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> Object:
        """Apply one object server-side at its own path."""
        return self.call("PATCH", f"{path}?fieldManager={manager}&force=true", body, content_type=APPLY)

    def delete(self, path: str, *, missing_ok: bool = False) -> None:
        try:
            self.call("DELETE", path)
        except ApiError as error:
            if error.status != 404 or not missing_ok:
                raise

    def apply_manifests(self, manifests: Iterable[Mapping[str, Any]], *, manager: str = "kubectl") -> list[str]:
        """Apply manifests of any kind server-side, namespaced ones into `default` unless they have a namespace. Returns
        their paths.
        """
        plurals: dict[str, dict[str, tuple[str, bool]]] = {}
        paths = []
        for manifest in manifests:
            version, kind = manifest["apiVersion"], manifest["kind"]
            prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
            if prefix not in plurals:
                resources = self.get(prefix)["resources"]
                plurals[prefix] = {r["kind"]: (r["name"], r["namespaced"]) for r in resources if "/" not in r["name"]}
            plural, namespaced = plurals[prefix][kind]
            metadata = manifest["metadata"]
            where = f"/namespaces/{metadata.get('namespace', 'default')}" if namespaced else ""
            path = f"{prefix}{where}/{plural}/{metadata['name']}"
            self.apply(path, manifest, manager=manager)
            paths.append(path)
        return paths

    def watch(self, path: str, *, seconds: int = 300, version: str = "") -> Iterator[tuple[str, Object]]:
        """Yield changes of the objects of a list from now on, or since a resource version: (ADDED, MODIFIED or DELETED;
        the object).
        """
        version = version or self.get(path)["metadata"]["resourceVersion"]
        url = f"{self.url}{path}{'&' if '?' in path else '?'}watch=1&resourceVersion={version}&timeoutSeconds={seconds}"
        timeout = urllib3.Timeout(connect=5, read=seconds + 5)
        answer = self._http.request("GET", url, headers=self._headers, preload_content=False, timeout=timeout)
        try:
            for line in answer:
                if line.strip():
                    event = msgspec.json.decode(line)
                    yield event["type"], event["object"]
        finally:
            answer.close()


def admin(endpoint: ApiServerEndpoint, pki: Path) -> KubeApi:
    """Return the administrator's client: anyone who can read the stack's folder is the administrator."""
    return KubeApi(endpoint, pair=KeyPair(pki / "admin.crt", pki / "admin.key"))
