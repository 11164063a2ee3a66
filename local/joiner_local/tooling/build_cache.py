"""The user's cache: expensive builds of the local stack, shared between clones.

`made_once` builds into a folder that appears only when it is complete; a second builder, of this clone or another,
waits for the first.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from joiner_local.tooling.command_progress import Say


def user_cache() -> Path:
    """Return `$XDG_CACHE_HOME/joiner`, by default `~/.cache/joiner`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "joiner"


def made_once(folder: Path, make: Callable[[Path], None], *, what: str, say: Say) -> Path:
    """Return `folder`, built by `make(empty folder)` unless it exists."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        _lock(lock.fileno(), what=what, say=say)
        if folder.is_dir():  # another builder built it meanwhile
            return folder
        fresh = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
        try:
            make(fresh)
            fresh.chmod(0o755)
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _lock(descriptor: int, *, what: str, say: Say) -> None:
    """Hold a lock that ends with its process, so a killed builder blocks nothing."""
    began, reported = time.monotonic(), 0.0
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() - reported > 15:
                reported = time.monotonic()
                say(f"{what}: another process makes it, waiting ({reported - began:.0f} s)")
            time.sleep(0.2)
