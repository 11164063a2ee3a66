"""The Lambda functions, one folder each: `handler.py` is the entry, its siblings are parts of the same function.

A handler parses its event, calls the library `joiner`, and returns what the caller reads. A function imports no other
function. The bundle of a function holds this file and the function's own folder, under the same names as here, so that
the import `from functions.<folder>.<module> import ...` means the same on Lambda, in tests and to mypy.
"""
