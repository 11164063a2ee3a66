"""Events of a cluster that is larger than the supported size: one on every pool."""

from joiner.pools import NodePool
from joiner.reporting.events import Event, Subject


def report_cluster_too_large(pool: NodePool, message: str) -> Event:
    """Return the event of a cluster that exceeds the supported size. Changed counts make no new event."""
    return Event(Subject.pool(pool), "ClusterTooLarge", "Survey", message, "Warning", news="ClusterTooLarge")
