"""Events of node repair."""

from joiner.pools import NodePool
from joiner.reporting.events import Event, Subject


def report_blocked_repair(pool: NodePool, message: str) -> Event:
    """Return the event of a pool with too many unhealthy nodes. Changed counts make no new event."""
    return Event(Subject.pool(pool), "NodeRepairBlocked", "Repair", message, "Warning", news="NodeRepairBlocked")
