"""The plan as others read it: nodes with their alternatives, and the reasons why pods stay pending.

Uses ``relaxation`` and what is below it.
"""
