"""Pods and offers as the planner sees them: values that do not change while a plan is made.

Pods that are alike form a group; pools, instance types, zones and capacity types form offers; persistent volumes become
constraints. Uses ``inputs``. No numpy.
"""
