"""When the first of the limits ends under which a proposal was made.

These limits end by time, and no list of the API server shows their end: the back-off of a pool after a failed
replacement, the cool-down of a workload, an eviction that is older than a day, an offering without capacity, a pool
that is held for a class of pods. The digest of the sweep (`joiner.disruption.survey_digest`) does not change with them,
so the end is stored with the proposal, and the cluster is surveyed again then.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from joiner.disruption.disruption_candidates import workload_of
from joiner.disruption.disruption_history import DisruptionHistory, find_onset
from joiner.planning import Snapshot
from joiner.planning.model.pending_pods import nodes_of_claims

DAY: Final = timedelta(days=1)


def find_first_end(
    snapshot: Snapshot, history: DisruptionHistory, marks: Iterable[datetime], now: datetime
) -> datetime | None:
    """Return when the first limit after `now` ends; None if there is none. `marks` are the ends of the marks of
    offerings without capacity (`joiner.disruption.limiting_marks`), and of holds of pools that launch no node for a
    class of pods."""
    pools = {pool.key: pool for pool in snapshot.pools}
    ends = [
        *marks,
        *(until for ends in (history.back_off, history.awaited) for pool, until in ends.items() if pool in pools),
    ]
    ends += [
        oldest + DAY
        for key, oldest in history.oldest_evictions.items()
        if key in pools and pools[key].disruption.limits.evictions_per_day is not None
    ]
    ends += _cool_downs(snapshot, history)
    ends += filter(None, map(find_onset, snapshot.claims))  # from then on, nothing waits for the room of such a node
    return min((end for end in ends if end > now), default=None)


def _cool_downs(snapshot: Snapshot, history: DisruptionHistory) -> Iterator[datetime]:
    """Yield the end of the cool-down of each workload with a pod on a node of a pool that has one."""
    waits = {pool.key: timedelta(seconds=pool.disruption.limits.workload_cool_down) for pool in snapshot.pools}
    nodes = nodes_of_claims(snapshot)
    wait_of = {nodes[one.key].name: waits.get(one.pool_key) for one in snapshot.claims if one.key in nodes}
    for pod in snapshot.pods if history.moves and any(waits.values()) else ():
        wait, moved = wait_of.get(pod.node_name), history.moves.get(workload_of(pod))
        if wait and moved is not None:
            yield moved + wait
