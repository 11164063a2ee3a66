"""Prepare an account before Joiner is deployed: the CDK bootstrap resources, and a cluster with its network."""
