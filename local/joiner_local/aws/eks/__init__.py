"""EKS: clusters and access entries."""
