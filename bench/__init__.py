"""Benchmarks: prices and durations of plans, compared with those of other tools. Nothing here is shipped, and no test
checks a time."""
