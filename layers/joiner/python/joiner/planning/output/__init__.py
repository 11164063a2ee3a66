"""The plan as its users read it: nodes with their alternatives, and the reasons of pending pods.

Uses ``relaxation`` and what is below it.
"""
