"""Check a plan independently of the planner.

Written from the Kubernetes documentation, on plain manifests and the plan's plain JSON. It deliberately shares no
code with the rest of the library (import-linter checks that), so that an error in the library's interpretation of a
rule is not repeated here. It checks the finished plan, with every pod on its node. It is slow: each pod is compared
with each other pod.

>>> check_plan({"pods": []}, {}, {"nodes": [], "existing": [], "pending": []})
[]
"""

from tests.plan_checker.check import check_plan

__all__ = ["check_plan"]
