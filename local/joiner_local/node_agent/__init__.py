"""The node agent: makes launched EC2 instances join the cluster according to their user data, and simulates their
kubelets.

It uses no internal interface of the local AWS or the control plane: it finds instances through EC2's API, joins as the
node, with the role of its instance profile, and fails where a real node would fail.
"""
