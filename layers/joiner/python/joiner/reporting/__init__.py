"""Reporting: Kubernetes events for the decisions of other packages, as `kubectl describe` shows them.

The package is pure. It may use every package but `adapters`.
"""
