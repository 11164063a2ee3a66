"""Benchmarks: what a plan costs and how long it takes, beside what others answer. Nothing here is shipped or a timed
test.
"""
