"""Limit the number of events: beyond the limit, one event summarizes similar events with their number.

In a mass outage, thousands of pods get the same event. Each event is a write to the API server, and API priority and
fairness gives each client a share of the writes. Beyond the limit, the events of one owner and one reason become a
single event on that owner, with their number and an example. If there are still too many, the largest groups keep their
event and the other groups are counted together. The rest of the limit is used for single objects, one of each group, so
that `kubectl describe pod` still shows examples.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from joiner.reporting.events import Event

EVENTS_AT_ONCE: Final = 200
"""Maximum number of events of one function's turn. 8 at a time and 20 ms each take half a second."""


def limit_events(events: Iterable[Event], most: int = EVENTS_AT_ONCE) -> list[Event]:
    """Return these events, or at most `most` events that count all of them.

    Events about objects without an owner (nodes, claims, pools) are grouped by kind, and reported on the first object
    of their group.
    """
    events = list(events)
    if len(events) <= most:
        return events
    groups: dict[tuple[str, ...], list[Event]] = {}
    for event in events:
        groups.setdefault(_group(event), []).append(event)
    largest = sorted(groups.values(), key=len, reverse=True)
    if len(largest) > most:
        largest = _merged(largest, most)
    summaries = [_summary(group) for group in largest]
    # A group of one keeps its event; the first event of a larger group is the example in its summary
    examples = (each[1:] for each in largest if len(each) > 1)
    singles = (event for row in zip_longest(*examples) for event in row if event is not None)
    return summaries + [event for event, _ in zip(singles, range(most - len(summaries)), strict=False)]


def _group(event: Event) -> tuple[str, ...]:
    about = event.owner or replace(event.subject, name="", uid="")
    return (about.kind, about.namespace, about.name, about.uid, event.reason, event.kind)


def _merged(groups: Sequence[list[Event]], most: int) -> list[list[Event]]:
    """Return the largest groups, and the other groups merged by kind of object and reason."""
    kinds: dict[tuple[str, str, str], list[Event]] = {}
    apart = max(0, most - len({_kind(group[0]) for group in groups}))
    for group in groups[apart:]:
        kinds.setdefault(_kind(group[0]), []).extend(replace(event, owner=None) for event in group)
    return [*groups[:apart], *list(kinds.values())[:most]]


def _kind(event: Event) -> tuple[str, str, str]:
    return (event.subject.kind, event.reason, event.kind)


def _summary(group: Sequence[Event]) -> Event:
    first = group[0]
    if len(group) == 1:
        return first
    objects = len({(event.subject.namespace, event.subject.name) for event in group})
    note = f"{objects:,} {_plural(first.subject.kind)}, for example {first.subject.name}: {first.note}"
    # The count changes from round to round; a new count alone makes no new event
    news = f"{_plural(first.subject.kind)}: {first.news}" if first.news else ""
    return replace(first, subject=first.owner or first.subject, note=note, news=news, owner=None)


def _plural(kind: str) -> str:
    return IRREGULAR.get(kind, f"{kind}s")


IRREGULAR: Final[Mapping[str, str]] = {"EC2NodeClass": "EC2NodeClasses"}
