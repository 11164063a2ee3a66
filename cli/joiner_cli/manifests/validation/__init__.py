"""The API server's validation beyond types: names, labels, selectors, quantities, and fields that depend on each other.

Only rules that plans depend on are here. A differential test compares them with a real API server
(``tests/e2e/test_refused_mutations.py``). Each problem names the field, its value and the remedy.
Source: Kubernetes, ``pkg/apis/*/validation``.
"""
