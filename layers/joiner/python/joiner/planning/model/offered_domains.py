"""The topology domains in which a pool can launch a node for a group of pods."""

from collections.abc import Iterator

from joiner.planning.model.node_offers import PoolOffers
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.model.position_bits import bit_positions_descending


def offered_domains(pool_offers: PoolOffers, group: PodGroup, key: str) -> Iterator[str]:
    """Yield the domains in which this pool has an offer that can hold a pod of the group, some of them repeatedly."""
    if group.constraints.untolerated(pool_offers.pool.taints) is not None:
        return
    for variant in pool_offers.variants:
        bits = variant.bits[group.index]
        own = variant.labels.get(key)
        for domain, offers in ({own: -1} if own is not None else pool_offers.domains(key)).items():
            usable = bits & (offers if offers >= 0 else bits)
            if any(fits(group, variant.launchable[position].free) for position in bit_positions_descending(usable)):
                yield domain
