"""What a plan is made from, read from manifests before anything is decided.

The snapshot of the cluster, what admission writes into pods, the scheduler's default constraints, capacity buffers, and
which fields a snapshot keeps. Uses ``cluster`` and ``pools``, and no other folder of ``planning``. No numpy.
"""
