"""The plan while it is made, and every rule of the scheduler.

``PlanState`` is changed while a plan is made; it never leaves ``planning``. Rules between pods, limits and the
assignment of pods to topology domains are all in this folder. Uses ``inputs`` and ``model``. No numpy.
"""
