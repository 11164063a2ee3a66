"""The search over arrays: whole nodes from the relaxation, then cheaper ones.

Randomized rounding, exact dynamic programming, column generation, ruin and recreate, swaps; the compiled kernel is in
``kernel``. A packing is a proposal: rules that arrays cannot express are checked in ``placement``. Uses ``relaxation``
and what is below it.
"""
