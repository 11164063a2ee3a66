"""A demonstration: scale up and down in a local stack, and report what happened and what it cost."""
