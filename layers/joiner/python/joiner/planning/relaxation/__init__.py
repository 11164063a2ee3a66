"""The linear relaxation: what the cheapest plan could cost, and what one pod of each kind is worth.

The plan as arrays, the offers that no other offer dominates, the linear program with its cuts, and the lower bound.
Uses ``inputs``, ``model`` and ``state``.
"""
