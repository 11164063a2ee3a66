"""Modules of a package without what its own `__init__` imports.

`kubernetes.client` imports hundreds of modules around its models, of which we use none: a quarter of a second of
computing in every cold start, and more where the files are cold. Its REST client and its `Configuration` need none of
them.
"""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unopened(*packages: str) -> Iterator[None]:
    """Within it, modules of these packages are imported without running the packages; whoever imports those later gets
    all of them.

    Parents first (`"kubernetes", "kubernetes.client"`). Packages that are imported already stay as they are.
    ModuleNotFoundError names a package that is not installed.

    >>> with unopened("curses"):
    ...     from curses import ascii
    >>> ascii.isdigit("7"), "curses" in sys.modules
    (True, False)
    """
    before = set(sys.modules)
    try:
        for name in packages:
            if name not in before:
                spec = importlib.util.find_spec(name)
                if spec is None:
                    raise ModuleNotFoundError(f"no module named {name!r}", name=name)
                sys.modules[name] = importlib.util.module_from_spec(spec)
        yield
    finally:
        for name in set(sys.modules) - before:
            if name in packages or name.startswith(tuple(f"{package}." for package in packages)):
                del sys.modules[
                    name
                ]  # a package that is opened later must find no module of its own that it does not know
