"""Limit the number of events: beyond the limit, one event summarizes similar events with their number.

In a mass outage, thousands of pods get the same event. Each event is a write to the API server, and API priority and
fairness gives each client a share of the writes. Beyond the limit, the events of one owner and one reason become a
single event on that owner, with their number and an example. If there are still too many, the largest groups keep their
event and the other groups are counted together. The rest of the limit is used for single objects, one of each group in
turn, so that `kubectl describe pod` still shows examples. A group for which this suffices has no summary.

The text of one object may be wrong for another: each of two invalid pools has its own mistake. So objects without an
owner are summarized by their texts. Such a summary is an event of the first of them, with its own text, which names the
next one and counts the others. It has the identity of the event that this object has without a limit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from joiner.reporting.events import Event, shorten_note

EVENTS_AT_ONCE: Final = 200
"""Maximum number of events of one function's turn. 8 at a time and 20 ms each take half a second."""


def limit_events(events: Iterable[Event], most: int = EVENTS_AT_ONCE) -> list[Event]:
    """Return these events, or at most `most` events that count all of them.

    Events about objects without an owner (nodes, claims, pools) are grouped by kind and text, and reported on the first
    object of their group.
    """
    events = list(events)
    if len(events) <= most:
        return events
    groups: dict[tuple[str, ...], list[Event]] = {}
    for event in events:
        groups.setdefault(_group(event), []).append(event)
    by_text = [part for group in groups.values() for part in _split_by_text(group)]
    largest = sorted(by_text if len(by_text) <= most else groups.values(), key=len, reverse=True)
    if len(largest) > most:
        largest = _merged(largest, most)
    written = _share(largest, most)
    firsts = [
        group[0] if len(group) <= share else _summary(group) for group, share in zip(largest, written, strict=True)
    ]
    # The first event of a larger group is the example in its summary
    examples = (group[1:share] for group, share in zip(largest, written, strict=True))
    return firsts + [event for row in zip_longest(*examples) for event in row if event is not None]


def _share(groups: Sequence[Sequence[Event]], most: int) -> list[int]:
    """Return how many events each group may write: one, and of the rest one each in turn, up to the size of the group.

    >>> _share([range(9), range(2), range(1)], 8)
    [5, 2, 1]
    """
    shares, left = [1] * len(groups), most - len(groups)
    while left > 0 and (growing := [at for at, group in enumerate(groups) if shares[at] < len(group)]):
        for at in growing[:left]:
            shares[at] += 1
        left -= len(growing[:left])
    return shares


def _group(event: Event) -> tuple[str, ...]:
    about = event.owner or replace(event.subject, name="", uid="")
    return (about.kind, about.namespace, about.name, about.uid, event.reason, event.kind)


def _split_by_text(group: list[Event]) -> list[list[Event]]:
    """Return events of objects without an owner by their text; those that share theirs with no other stay together."""
    if group[0].owner is not None:
        return [group]
    by_text: dict[str, list[Event]] = {}
    for event in group:
        by_text.setdefault(event.note, []).append(event)
    single = [event for same in by_text.values() if len(same) == 1 for event in same]
    return [*(same for same in by_text.values() if len(same) > 1), *([single] if single else [])]


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
    if first.owner is None:
        return replace(first, note=shorten_note(first.note, _describe_others(group)), news=first.news or first.note)
    objects = len({(event.subject.namespace, event.subject.name) for event in group})
    differing = " with different texts" if any(event.note != first.note for event in group) else ""
    note = f"{objects:,} {_plural(first.subject.kind)}{differing}, for example {first.subject.name}: {first.note}"
    # The count changes from round to round; a new count alone makes no new event
    news = f"{_plural(first.subject.kind)}: {first.news}" if first.news else ""
    return replace(first, subject=first.owner, note=note, news=news, owner=None)


def _describe_others(group: Sequence[Event]) -> str:
    """Return the end of the text of an event that counts the others of its group: more texts of its object, and other
    objects."""
    first = group[0]
    texts = len({event.note for event in group if event.subject == first.subject}) - 1
    more = [f"{texts:,} more text{'s' if texts > 1 else ''}"] if texts else []
    others = list(dict.fromkeys(event.subject for event in group if event.subject != first.subject))
    if others:
        kind = first.subject.kind if len(others) == 1 else _plural(first.subject.kind)
        example = f"for example {others[0].name}" if len(others) > 1 else others[0].name
        same = all(event.note == first.note for event in group)
        more.append(f"{'the same' if same else 'another text'} for {len(others):,} other {kind}, {example}")
    return f" ({'; '.join(more)})" if more else ""


def _plural(kind: str) -> str:
    return IRREGULAR.get(kind, f"{kind}s")


IRREGULAR: Final[Mapping[str, str]] = {"EC2NodeClass": "EC2NodeClasses"}
