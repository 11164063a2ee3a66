"""What to retire and why: proposals over a snapshot and prices. Empty until nodes are ended for their price."""
