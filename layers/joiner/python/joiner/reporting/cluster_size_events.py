"""Events of a cluster that is larger than the supported size: on every pool."""

from joiner.pools import NodePool
from joiner.reporting.events import Event, Subject


def report_cluster_too_large(pool: NodePool, said: str) -> Event:
    """The cluster exceeds the supported size. The counts move; they make no other event."""
    return Event(Subject.pool(pool), "ClusterTooLarge", "Survey", said, "Warning", news="ClusterTooLarge")
