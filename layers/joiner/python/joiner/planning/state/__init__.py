"""What is placed where, and every rule of the scheduler.

``PlanState`` is changed while a plan is made; it never leaves ``planning``. All rules between pods, limits and the
assignment of pods to topology domains are here. Uses ``inputs`` and ``model``. No numpy.
"""
