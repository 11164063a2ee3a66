"""The supported size of a cluster; `python -m bench.list_memory` measures every listing function at this size.

Larger clusters still work while memory and time suffice. Joiner reports them, because a function that exceeds its
memory is killed and cannot report anything.
"""

from typing import Final

SUPPORTED_PODS: Final = 50_000
"""Pods that have not ended. At this number each function that lists them uses less than half of its memory."""
SUPPORTED_NODES: Final = 2_000


def beyond_supported_size(pods: int, nodes: int) -> str:
    r"""Return what exceeds the supported size, with the remedy; empty if nothing does.

    >>> beyond_supported_size(50_000, 2_000)
    ''
    >>> print(beyond_supported_size(61_000, 1_500).replace(": ", ":\n"))
    61,000 pods exceed the supported size of 50,000:
    raise the memory of the listing functions (infra/function_configuration.py), or use several clusters
    """
    counts = ((pods, SUPPORTED_PODS, "pods"), (nodes, SUPPORTED_NODES, "nodes"))
    exceeded = [
        f"{count:,} {what} exceed the supported size of {most:,}" for count, most, what in counts if count > most
    ]
    remedy = "raise the memory of the listing functions (infra/function_configuration.py), or use several clusters"
    return f"{' and '.join(exceeded)}: {remedy}" if exceeded else ""
