"""Changes to moto that add no service: caches, faster answers, locks, and the limits that AWS checks."""
