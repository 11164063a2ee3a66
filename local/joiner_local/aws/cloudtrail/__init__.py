"""CloudTrail: an empty event history."""
