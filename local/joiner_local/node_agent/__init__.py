"""The node agent: makes launched EC2 instances join the cluster, as their user data says, and plays their kubelets.

It has no friend inside the local AWS or the control plane: it learns of instances through EC2's API, joins as the node itself, by its
instance profile's role, and fails wherever a real node would.
"""
