"""Is this plan right? An answer that owes nothing to the planner.

Written from the Kubernetes documentation on plain manifests and the plan's plain JSON. It shares no code with the rest
of the library on purpose (a tool checks that): a mistake in the library's reading of a rule must not be made again
here. It looks at the end of the plan, with every pod in its place, and takes its time: each pod is held against each
other.

>>> check_plan({"pods": []}, {}, {"nodes": [], "existing": [], "pending": []})
[]
"""

from tests.plan_checker.check import check_plan

__all__ = ["check_plan"]
