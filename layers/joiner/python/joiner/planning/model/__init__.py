"""Pods and offers as the planner sees them: values that do not change while a plan is made.

Equal pods form a group. Pools, instance types, zones and capacity types form offers. Persistent volumes become
constraints. Uses ``inputs``. No numpy.
"""
