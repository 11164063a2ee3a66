"""Compile test modules once for all workers.

pytest rewrites the assertions of each test module, which takes twenty times as long as to load the result. It keeps the
result beside the module, but workers that start together all begin before any has kept it: in a new checkout each of
them compiles everything.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

FEW: Final = 30
"""Modules whose compilation takes no longer than the start of a process for them."""


def compile_modules(folders: Iterable[Path], *, processes: int | None = None) -> int:
    """Compile the test modules in these folders that changed since pytest compiled them, unless they are few; return
    their number. `processes` is the number of the machine's processors by default.

    An error in a module is left to the worker that imports it.
    """
    changed = sorted({module for folder in folders for module in _modules(folder) if not _is_compiled(module)})
    if len(changed) < FEW or sys.dont_write_bytecode:
        return 0
    shares = divided(changed, processes or os.cpu_count() or 1)
    with ThreadPoolExecutor(len(shares)) as pool:
        list(pool.map(_collect, shares))
    return len(changed)


def divided(modules: Iterable[Path], number: int) -> list[list[Path]]:
    """Divide modules into at most this many shares with about as many bytes each."""
    shares: list[list[Path]] = [[] for _ in range(number)]
    sizes = [0] * number
    for size, module in sorted(((module.stat().st_size, module) for module in modules), reverse=True):
        least = sizes.index(min(sizes))
        shares[least].append(module)
        sizes[least] += size
    return [share for share in shares if share]


def _modules(folder: Path) -> Iterable[Path]:
    return [folder] if folder.is_file() else folder.rglob("test_*.py")


def _is_compiled(module: Path) -> bool:
    kept = f"{module.stem}.{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"
    try:
        return (module.parent / "__pycache__" / kept).stat().st_mtime >= module.stat().st_mtime
    except FileNotFoundError:
        return False


def _collect(modules: Sequence[Path]) -> None:
    """Let a pytest that runs no test import the modules."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider"]
    subprocess.run([*command, *map(str, modules)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
