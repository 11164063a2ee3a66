"""The checks of a sweep: one file for each check, each independent of the others.

A `ClusterCheck` reads a survey of the cluster and returns one sentence for each case that a scale-up has to handle. Its
name is the key of its count in the sweep's answer. A `RetirementCheck` reads the same survey and returns the claims to
retire. An `InstanceCheck` reads a survey of the instances and returns the differences between EC2 and the cluster.
`check_registry` lists all of them.
"""
