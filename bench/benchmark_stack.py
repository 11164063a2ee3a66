"""The separate local stack of a benchmark, with this checkout deployed."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from joiner_local.stack.stack_control import LocalStack


@contextmanager
def deployed_stack(boot_seconds: float, *, swept: bool = True) -> Iterator[LocalStack]:
    """Start a stack, deploy into it, and end it after the block. Unless `swept`, no sweep starts by the clock."""
    temporary = tempfile.TemporaryDirectory(prefix="joiner-bench-", ignore_cleanup_errors=True)
    with temporary as root, LocalStack(Path(root), boot_seconds=boot_seconds, say=to_stderr) as stack:
        stack.deploy()
        if not swept:
            stack.knob("schedules/hold", {"held": True})
        yield stack


def to_stderr(line: str) -> None:
    """Print progress to stderr, because it is not a result."""
    print(line, file=sys.stderr)
