"""How long an execution has the lease, in seconds."""

from typing import Final

LEASE_SECONDS: Final = 120
"""Until the first function under the lease renews it; each function renews it for its own timeout and 30 seconds."""

LEASE_RETRY_SECONDS: Final = 3
"""Between two attempts to take the lease. A scale-up has it for seconds."""
