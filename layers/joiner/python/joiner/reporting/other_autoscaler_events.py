"""What is told of other autoscalers: on every pool, because pools are what people look at when no node comes."""

from joiner.lifecycle.other_autoscalers import OtherAutoscaler
from joiner.reporting.events import Event, Subject


def report_other_autoscaler(pool: Subject, other: OtherAutoscaler) -> Event:
    """Somebody else makes nodes in this cluster."""
    return Event(pool, str(other.guard), "Refuse" if other.guard.refuses else "Warn", other.message, "Warning")
