"""The command `joiner accept`: tests on a real account, from dry runs to one small node."""
