"""STS: verify the signatures of requests."""
