"""The time for which an offering is not launched after EC2 had no capacity for it."""

from typing import Final

UNAVAILABLE_SECONDS: Final = 180
"""Seconds from an insufficient-capacity error, or from an interruption of a spot instance, to the next launch from the
same offering.

Karpenter's cache of unavailable offerings (``pkg/cache``) keeps an entry for the same time.
"""
