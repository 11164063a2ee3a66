"""Scale the worth of items such that no offer earns more than its price."""

import numpy as np

from joiner.planning.arrays import Floats, Marks, Whole


def worth_to_price_ratio(
    free: Floats, price: Floats, ways: Marks, way: Whole, *, need: Floats, worth: Floats, rates: Floats
) -> Floats:
    """Return for each of these offers by how much the worth of its pods exceeds its price, with its capacity priced by
    the best of ``rates``. Divided by the largest of these ratios, worths are such that no offer earns more than its
    price. ``ways`` marks the items that may use an offer, and ``way`` is the row of each offer in it."""
    # Any prices give a valid proof; the prices of one resource alone are used if no others exist. Variants of a pool
    # have the same prices, and each takes a pass over all offers and items.
    prices = np.unique(np.concatenate([rates[rates.any(axis=1)], np.eye(rates.shape[1])]), axis=0)
    whole, each = free @ prices.T, need @ prices.T
    least: Floats = np.full(len(price), np.inf)
    for position in range(len(prices)):
        # An item without cost at these prices is worth more than that; prices at which the capacity costs nothing prove
        # nothing.
        ratio = np.divide(worth, each[:, position], out=np.full(len(worth), np.inf), where=each[:, position] > 0)
        worst = np.where(ways, ratio, 0.0).max(axis=1, initial=0.0)[way]
        known = np.flatnonzero((whole[:, position] > 0) & np.isfinite(worst))
        least[known] = np.minimum(least[known], worst[known] * whole[known, position] / price[known])
    return least
