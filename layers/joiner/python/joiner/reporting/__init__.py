"""Telling: decisions as people read them, in `kubectl describe`, in the console, in log lines. Pure renderings of values made elsewhere.

May use every room but `adapters`.
"""
