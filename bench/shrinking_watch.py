"""Watch a cluster that shrinks: its price and the pods that were created anew, after each change of a pod or a claim.

A list a second would miss most of it: within a second, dozens of pods are evicted and several nodes leave. The watches
of the API server report every change in its order.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import urllib3

from bench.applied_workloads import NODE_CLAIMS, PODS, price_per_hour
from joiner_local.control_plane.kube_api import ApiError, KubeApi, Object

WATCHED_SECONDS: Final = 1800


@dataclass(frozen=True, slots=True)
class Moment:
    """The cluster at one time: seconds since the deletion, price in $/h of all instances that are not leaving, nodes,
    pods that were created since, and pods that do not run."""

    at: float
    price: float
    nodes: int
    recreated: int
    pending: int

    @property
    def state(self) -> tuple[float, int, int, int]:
        """Return what changes over time, without the time."""
        return self.price, self.nodes, self.recreated, self.pending


class ShrinkingWatch:
    """Watches pods and NodeClaims of a cluster from the time of its creation, until `close`."""

    def __init__(self, kube: KubeApi) -> None:
        self.moments: list[Moment] = []
        self._kube = kube
        self._began = time.monotonic()
        self._running: dict[str, bool] = {}
        self._prices: dict[str, float] = {}
        self._over = threading.Event()
        self._changing = threading.Lock()
        versions = {path: self._list(path, note) for path, note in self._watched()}
        self._known = set(self._running)
        self._created: set[str] = set()
        for path, note in self._watched():
            threading.Thread(target=self._watch, args=(path, note, versions[path]), daemon=True).start()

    def _watched(self) -> tuple[tuple[str, Callable[[str, Object], None]], ...]:
        return (PODS, self._note_pod), (NODE_CLAIMS, self._note_claim)

    def close(self) -> None:
        """End both watches after their next change."""
        self._over.set()

    @property
    def seconds(self) -> float:
        """Return the seconds since the watch began."""
        return time.monotonic() - self._began

    @property
    def quiet_seconds(self) -> float:
        """Return the seconds since the last change."""
        return self.seconds - (self.moments[-1].at if self.moments else 0.0)

    def _list(self, path: str, note: Callable[[str, Object], None]) -> str:
        listed = self._kube.get(path)
        for found in listed["items"]:
            note("ADDED", found)
        return str(listed["metadata"]["resourceVersion"])

    def _watch(self, path: str, note: Callable[[str, Object], None], version: str) -> None:
        while not self._over.is_set():
            with suppress(ApiError, urllib3.exceptions.HTTPError):
                for event, found in self._kube.watch(path, version=version, seconds=WATCHED_SECONDS):
                    if self._over.is_set():
                        return
                    version = found["metadata"].get("resourceVersion", version)
                    if event in ("ADDED", "MODIFIED", "DELETED"):
                        with self._changing:
                            note(event, found)
                            self._note_moment()

    def _note_pod(self, event: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if event == "DELETED" or "deletionTimestamp" in pod["metadata"]:
            self._running.pop(uid, None)
        else:
            self._running[uid] = pod["status"].get("phase") == "Running"

    def _note_claim(self, event: str, claim: Object) -> None:
        name = claim["metadata"]["name"]
        if event == "DELETED" or _is_terminating(claim):
            self._prices.pop(name, None)
        else:
            self._prices[name] = price_per_hour(claim)

    def _note_moment(self) -> None:
        self._created |= self._running.keys() - self._known
        pending = sum(not running for running in self._running.values())
        price = round(sum(self._prices.values()), 4)
        moment = Moment(self.seconds, price, len(self._prices), len(self._created), pending)
        if not self.moments or moment.state != self.moments[-1].state:
            self.moments.append(moment)


def _is_terminating(claim: Object) -> bool:
    conditions = claim.get("status", {}).get("conditions", ())
    return any(one["type"] == "InstanceTerminating" and one["status"] == "True" for one in conditions)


def first_at(moments: list[Moment], price: float) -> Moment | None:
    """Return the first moment with at most this price; None if there is none.

    >>> series = [Moment(1.0, 90.0, 40, 8, 0), Moment(2.5, 88.0, 39, 12, 1), Moment(3.0, 80.0, 36, 30, 0)]
    >>> first_at(series, 88.0).recreated, first_at(series, 70.0)
    (12, None)
    """
    return next((one for one in moments if one.price <= price + 1e-9), None)


def steps_of_price(moments: list[Moment], step: float) -> list[Moment]:
    """Return the moments at which the price was first lower than before by each further step in $/h.

    >>> series = [Moment(float(at), price, 0, at, 0) for at, price in enumerate((10.0, 9.5, 8.9, 8.8, 9.4, 7.0, 7.0))]
    >>> [(one.price, one.recreated) for one in steps_of_price(series, 1.0)]
    [(10.0, 0), (8.9, 2), (7.0, 5)]
    """
    found: list[Moment] = []
    for one in moments:
        if not found or one.price <= found[-1].price - step:
            found.append(one)
    return found
