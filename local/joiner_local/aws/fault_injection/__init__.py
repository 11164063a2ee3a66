"""Fault injection: calls without a response, refused calls, stopped executions, instances that end right after their
launch.

Nothing here knows Joiner, and Joiner does not know this: faults are injected where requests enter the local AWS, and in
a proxy before the API server. `fault_knobs` lists the knobs.
"""
