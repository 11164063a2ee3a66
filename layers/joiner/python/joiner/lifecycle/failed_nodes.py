"""How long a pool launches no node for pods whose last nodes never became ready for them (`joiner.pools.pool_holds`).

A node that lacks a device which its pods request would lack it again: the pool waits from the first one on. A node that
does not join, or is not Ready, may be a single bad instance: its pods get another node at once, as with Karpenter, and
wait from the second failure in a row on.
"""

from dataclasses import replace

from joiner.lifecycle.launch_back_off import BACK_OFF_RESET_AFTER, BACK_OFF_STEPS
from joiner.pools.pool_holds import PoolHold


def count_failure(before: PoolHold | None, failed: PoolHold) -> PoolHold | None:
    """Return the hold after one more node failed; None if that node does not count.

    ``failed`` describes the node; its ``failures`` and ``until`` are not read. Nodes that were launched before the last
    failure fail for the same reason and do not count again. A node of an edition that has been replaced since does not
    count either.
    """
    if before is None or before.edition != failed.edition:
        if before is not None and failed.launched_at <= before.launched_at:
            return None
        return _after(failed, 1)
    if failed.launched_at < before.failed_at:
        return None
    in_a_row = failed.failed_at - max(before.until, before.failed_at) <= BACK_OFF_RESET_AFTER
    return _after(failed, before.failures + 1 if in_a_row else 1)


def _after(failed: PoolHold, failures: int) -> PoolHold:
    waits = failures if failed.device else failures - 1
    step = BACK_OFF_STEPS[min(waits, len(BACK_OFF_STEPS)) - 1] if waits else 0
    return replace(failed, failures=failures, until=failed.failed_at + step)
