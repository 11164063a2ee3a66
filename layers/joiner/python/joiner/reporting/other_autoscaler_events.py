"""Events about other autoscalers of the cluster.

They are on every pool, because users check their pools when no node is launched.
"""

from joiner.lifecycle.other_autoscalers import OtherAutoscaler
from joiner.reporting.events import Event, Subject


def report_other_autoscaler(pool: Subject, other: OtherAutoscaler) -> Event:
    """Return the event of another autoscaler that launches nodes in this cluster."""
    return Event(pool, str(other.guard), "Refuse" if other.guard.refuses else "Warn", other.message, "Warning")
