"""How long an execution that awaits nodes counts as running after its last call."""

from datetime import timedelta
from typing import Final

WATCHED_FOR: Final = timedelta(minutes=2)
"""A running execution checks its wave every few seconds. One that has not for this long has stopped, or the sweep finds
its claims again.
"""
