"""From a packing to pods on nodes: each pod is placed by every rule of the scheduler, or stays pending.

Placing a packing, placing pods one after the other, local search in the plan's state, repairs and preferences. Uses
``packing`` and what is below it.
"""
