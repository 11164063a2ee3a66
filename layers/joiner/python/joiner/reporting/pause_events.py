"""Events while Joiner is paused: one on every pool, because users check their pools when no node is launched."""

from joiner.pools import NodePool
from joiner.reporting.events import Event, Subject


def report_pause(pool: NodePool, cluster: str) -> Event:
    """Return the event of a pause; there is one in ten minutes while it lasts."""
    note = f"Joiner is paused: nothing is launched and no node is removed. `joiner resume {cluster}` ends the pause"
    return Event(Subject.pool(pool), "JoinerPaused", "Survey", note, "Warning", news="JoinerPaused")
