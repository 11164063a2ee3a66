"""What disruptions do to pods during a part of a test, and which rules they break (`disruption_rules`)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.e2e.stack_actions import Actor


@dataclass(frozen=True, slots=True)
class EvictionRecord:
    """The violations, and the names of the pods that Joiner ended."""

    violations: set[str] = field(default_factory=set)
    evicted: set[str] = field(default_factory=set)


@dataclass(slots=True)
class EvictionWatch:
    """A time that is observed until now, or until its end."""

    actor: Actor
    since: float = field(default_factory=time.time)
    ended: EvictionRecord | None = None

    def record(self) -> EvictionRecord:
        """Return what was observed."""
        if self.ended is not None:
            return self.ended
        judge = self.actor.judge_disruptions(self.since)
        return EvictionRecord(set(judge.violations), set(judge.ended))

    @property
    def evicted(self) -> set[str]:
        return self.record().evicted


@contextmanager
def watched_evictions(actor: Actor) -> Iterator[EvictionWatch]:
    """Watch during the block; fail afterwards if a rule was broken."""
    with watch_evictions(actor) as watched:
        yield watched
    assert watched.record().violations == set()


@contextmanager
def watch_evictions(actor: Actor) -> Iterator[EvictionWatch]:
    """Watch during the block."""
    watched = EvictionWatch(actor)
    yield watched
    watched.ended = watched.record()
