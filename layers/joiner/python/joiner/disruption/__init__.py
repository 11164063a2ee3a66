"""Which nodes to remove or to replace, and why: consolidation and drift.

Decisions are pure functions of one snapshot. Their simulation is the planner itself, so that every move keeps the
rules of kube-scheduler. Functions execute the decisions in the state machine DISRUPT.
"""
