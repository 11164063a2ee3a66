"""Events while Joiner is paused, on every pool and on the pods that wait for a node: users check both."""

from joiner.cluster import Pod
from joiner.pools import NodePool
from joiner.reporting.events import Event, Subject


def report_pause(pool: NodePool, cluster: str) -> Event:
    """Return the event of a pause; there is one in ten minutes while it lasts."""
    note = f"Joiner is paused: nothing is launched and no node is removed. `joiner resume {cluster}` ends the pause"
    return Event(Subject.pool(pool), "JoinerPaused", "Survey", note, "Warning", news="JoinerPaused")


def report_paused_pod(pod: Pod, cluster: str) -> Event:
    """Return the event of a pod for which no node is launched during a pause; there is one in ten minutes."""
    note = f"Joiner is paused: no node is launched for it. `joiner resume {cluster}` ends the pause"
    return Event(
        Subject.pod(pod), "JoinerPaused", "Survey", note, "Warning", news="JoinerPaused", owner=Subject.owner_of(pod)
    )
