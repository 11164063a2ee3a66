"""Lists of the API server, read a page at a time.

A page that fails is asked for again; the pages before it are kept. Two failures differ:

* 429 and 5xx: the same page is asked for again, after the seconds of its ``Retry-After``, within limits. A server that
  asks for more
  patience than that is left to the state machine's retry. A connection that breaks within a page is tried once more in
  a list, because it may take as long as its timeout to notice.
* 410: the continue token is older than the versions that etcd keeps. The answer has another token, with which the list
  goes on after the
  last key, at the newest version. Objects that were there all the time are listed once; those that came or went
  meanwhile may or may not be. A list that must be consistent starts again instead.

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
"""Seconds. No longer ``Retry-After`` is waited for here."""
PATIENCE: Final = 15.0
"""Seconds that one list waits in all: a third of the shortest timeout of a function that lists many objects."""
RESTARTS: Final = 2
RESUMES: Final = 20
"""Continuations of one list at a newer version; each follows from an expired token, and tokens live for minutes."""


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
        """What `keep` makes of each page. KubeError if a page cannot be had.

        `consistent` lists are of one version: `Expired` if the pages take longer than etcd keeps it, three times in a
        row.
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
