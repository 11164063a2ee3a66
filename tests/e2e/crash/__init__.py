"""The crash table: whatever call fails, and wherever an execution is stopped, two sweeps later all is as if nothing had
happened.
"""
