"""Joiner: what its functions, its command and its tests share, in rooms."""
