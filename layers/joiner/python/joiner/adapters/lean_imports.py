"""Import modules of a package without the imports of its own `__init__`.

`kubernetes.client` imports hundreds of modules around its models, which we do not use: a quarter of a second of
computing in every cold start, and more if the files are not cached. `kubernetes.utils` imports them, too, and a parser
of YAML. The REST client and its `Configuration` need none of them.
"""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unopened(*packages: str) -> Iterator[None]:
    """Import modules of these packages inside the block without running the packages; later imports get the whole
    packages.

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
                ]  # a package that is imported later must not find modules of its own that it does not know
