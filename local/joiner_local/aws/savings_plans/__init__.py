"""AWS Savings Plans."""
