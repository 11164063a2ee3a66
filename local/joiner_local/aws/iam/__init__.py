"""IAM of the local AWS: what a deployed function or a state machine may do is decided by the policies of its role, as on AWS."""
