"""Lists of the API server, read a page at a time.

A page that fails is requested again; the pages before it are kept. Two failures differ:

* 429 and 5xx: the same page is requested again, after the seconds of its ``Retry-After``, within limits. If the server
  asks for a longer wait, the state machine retries. A connection that breaks within a page is tried once more in a
  list, because the break may be detected only after the timeout.
* 410: the continue token is older than the versions that etcd keeps. The answer has another token, with which the list
  continues after the last key, at the newest version. Objects that existed all the time are listed once; those that
  were created or deleted meanwhile may be listed or not. A list that must be consistent starts again instead.

Source: Kubernetes, "API Concepts" (retrieving large results sets in chunks) and the description of `continue` in
ListMeta.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from joiner.adapters.kube_errors import Expired, TooManyRequests, Unreachable
from joiner.cluster.list_pages import read_page

Kept = TypeVar("Kept")

PAGE: Final = 500  # objects a page: what kubectl asks for
TRIES: Final = 4
PAUSES: Final = (0.25, 0.5, 1.0)
"""Seconds before each further try of a page, unless the server asks for more."""
LONGEST_PAUSE: Final = 5.0
"""Seconds. A longer ``Retry-After`` is not waited for here."""
PATIENCE: Final = 15.0
"""Seconds that one list waits in total: a third of the shortest timeout of a function that lists many objects."""
RESTARTS: Final = 2
RESUMES: Final = 20
"""Continuations of one list at a newer version; each follows an expired token, and tokens are valid for minutes."""


class Lister:
    """Reads one list; `fetch` answers one request for a page, `sleep` waits so many seconds."""

    def __init__(self, fetch: Callable[[Mapping[str, str]], bytes], sleep: Callable[[float], None]) -> None:
        self._fetch = fetch
        self._sleep = sleep
        self._patience = PATIENCE
        self._broken = False

    def read(
        self,
        plural: str,
        query: Mapping[str, str],
        keep: Callable[[list[Mapping[str, Any]]], Kept],
        *,
        consistent: bool,
    ) -> list[Kept]:
        """Return the result of `keep` for each page. KubeError if a page cannot be read.

        `consistent` lists are of one version: `Expired` if reading the pages takes longer than etcd keeps it, three
        times in a row.
        """
        for _ in range(RESTARTS):
            try:
                return self._pages(plural, query, keep, consistent=consistent)
            except Expired:
                continue
        return self._pages(plural, query, keep, consistent=consistent)

    def _pages(
        self,
        plural: str,
        query: Mapping[str, str],
        keep: Callable[[list[Mapping[str, Any]]], Kept],
        *,
        consistent: bool,
    ) -> list[Kept]:
        found: list[Kept] = []
        following, resumes = "", 0
        while True:
            try:
                page = self._page({**query, "limit": str(PAGE)} | ({"continue": following} if following else {}))
            except Expired as expired:
                resumes += 1
                if consistent or not expired.continue_token or resumes > RESUMES:
                    raise
                following = expired.continue_token
                continue
            try:
                items, following = read_page(page, plural)
            except msgspec.DecodeError as reason:
                raise Unreachable(f"a page of {plural} that is no JSON") from reason
            found.append(keep(items))
            if not following:
                return found

    def _page(self, query: Mapping[str, str]) -> bytes:
        for pause in PAUSES[: TRIES - 1]:
            try:
                return self._fetch(query)
            except (TooManyRequests, Unreachable) as refused:
                wait = max(pause, float(refused.retry_after))
                if wait > min(LONGEST_PAUSE, self._patience) or (not refused.status and self._broken):
                    raise
                self._broken |= not refused.status
                self._patience -= wait
                self._sleep(wait)
        return self._fetch(query)
