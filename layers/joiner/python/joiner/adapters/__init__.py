"""Adapters: the only package with I/O. It reads and writes the API server, EC2, S3, DynamoDB and EKS tokens as values.

This package may use every other package. No type of boto3 or of the `kubernetes` library leaves it: callers get
Joiner's own values and errors.
"""
