"""Reporting: Kubernetes events that render decisions of other rooms, as `kubectl describe` shows them. The room is
pure.

May use every room but `adapters`.
"""
