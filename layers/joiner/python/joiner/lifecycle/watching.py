"""How long an execution that awaits nodes counts as running after its last call."""

from datetime import timedelta
from typing import Final

WATCHED_FOR: Final = timedelta(minutes=2)
"""A living execution looks at its wave every few seconds; one that has not for this long is dead, or will be found
again by the sweep.
"""
