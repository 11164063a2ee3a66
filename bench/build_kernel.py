"""Compiles ``fill.c`` for the processors that Lambda and most desks have: ``python -m bench.build_kernel``.

It needs the ``ziglang`` package, whose C compiler builds for any processor on any other and gives the same bytes
everywhere. Run it when ``fill.c`` was changed; the results are kept beside it, so nobody needs a compiler to use them,
and a test tells when they are stale.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from joiner.planning.packing.kernel import FOLDER, PROCESSORS, library_path

SOURCE = Path(FOLDER) / "fill.c"
FLAGS = (
    "-O3",
    "-std=c11",
    "-ffreestanding",
    "-fno-builtin",
    "-nostdlib",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-sanitize=all",
)
"""No contraction of a * b + c into one rounding: every processor shall come to the same answer, to the bit."""


def main() -> int:
    """Builds all of them; answers the compiler's exit code if it refuses."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    for machine, processor in PROCESSORS.items():
        target = ("-target", f"{machine.rpartition('-')[2]}-linux-none", f"-mcpu={processor}")
        command = [sys.executable, "-m", "ziglang", "cc", *target, *FLAGS, f'-DDIGEST="{digest}"']
        made = subprocess.run(
            [*command, "-fPIC", "-shared", "-s", "-o", library_path(machine), str(SOURCE)], check=False
        )
        if made.returncode:
            return made.returncode
        for left_over in Path(SOURCE.parent).glob("*.lib"):
            left_over.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
