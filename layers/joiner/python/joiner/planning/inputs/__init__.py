"""The inputs of a plan, read from manifests before any decision.

The snapshot of the cluster, what admission writes into pods, the scheduler's default constraints, capacity buffers,
and the fields that a snapshot keeps. Uses ``cluster`` and ``pools``, and no other folder of ``planning``. No numpy.
"""
