"""Exclude instance types from a search in a state that knows them."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from joiner.planning.state.plan_state import PlanState


@contextmanager
def excluded_types(state: PlanState, types: Collection[str]) -> Iterator[None]:
    """Let no pod use an offer of these types, and restore the offers at the end."""
    changed = []
    for pool_offers in state.offered_pools if types else ():
        kept = ~sum(1 << one.index for one in pool_offers.launchable if one.model.name in types)
        for variant in pool_offers.variants:
            bits = dict(variant.bits)
            changed.append((variant, bits))
            object.__setattr__(variant, "bits", {group: offers & kept for group, offers in bits.items()})
    try:
        yield
    finally:
        for variant, bits in changed:
            object.__setattr__(variant, "bits", bits)
