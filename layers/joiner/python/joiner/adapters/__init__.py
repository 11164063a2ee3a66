"""The only room with I/O: the API server, EC2, S3, DynamoDB, EKS tokens. It turns what they say into values, and values into calls.

May use every other room. Nothing of boto3 or of the `kubernetes` library leaves it: callers see our values and our errors.
"""
