"""How many instance types a spot launch may choose among, and the message about too few, in a cluster and in a plan.

Source: Amazon EC2 user guide, "Best practices for Amazon EC2 Spot" (be flexible about instance types); Karpenter warns
below the same number (``pkg/providers/instance/instance.go``, instanceTypeFlexibilityThreshold).
"""

from collections.abc import Collection
from typing import Final

FEW_TYPES: Final = 5
"""A spot launch with fewer types is reported: its capacity is scarce, and interrupted together."""


def describe_few_choices(types: Collection[str], owner: str, *, of_claim: bool) -> str:
    """Return the message about spot nodes of these types only; empty if they are enough. ``owner`` is the pool or the
    standalone claim with the requirements, such as ``NodePool/web``.

    Requirements are not the only cause: types that cost more than the cheapest on-demand node, exceed a limit or a
    ceiling, or have no capacity now, are no choices.

    >>> print(describe_few_choices(["m5.large"], "NodeClaim/one", of_claim=True))
    1 instance type can hold what the claim requests on a spot node, at a price not above on-demand and within the \
limits (m5.large): with fewer than 5, capacity is scarcer and interruptions are more frequent. Allow more instance \
types, sizes or zones in the requirements of NodeClaim/one
    >>> describe_few_choices(["a.large", "b.large", "c.large", "d.large", "e.large"], "NodePool/web", of_claim=False)
    ''
    """
    listed = sorted(set(types))
    if len(listed) >= FEW_TYPES:
        return ""
    what = "what the claim requests" if of_claim else "these pods"
    remedy = f"Allow more instance types, sizes or zones in the requirements of {owner}"
    more = "" if of_claim else " and of its pods, or raise a limit that excludes larger ones"
    return (
        f"{len(listed)} instance {'type' if len(listed) == 1 else 'types'} can hold {what} on a spot node, at a price "
        f"not above on-demand and within the limits ({', '.join(listed)}): with fewer than {FEW_TYPES}, capacity is "
        f"scarcer and interruptions are more frequent. {remedy}{more}"
    )
