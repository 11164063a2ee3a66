"""EventBridge: deliver events of rules to their targets."""
