"""The innermost loops of the search in C (``fill.c``), compiled; ``compiled_kernel`` calls them."""
