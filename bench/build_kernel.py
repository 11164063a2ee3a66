"""Compile ``fill.c`` for the processors of Lambda and of most workstations: ``python -m bench.build_kernel``.

It needs the ``ziglang`` package (0.17.1 for the same bytes), whose C compiler cross-compiles for any processor
on any machine. Run it after a change of ``fill.c``. The libraries are stored beside it, so users need no compiler, and
a test fails when they are outdated.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from joiner.planning.packing.kernel.compiled_kernel import FOLDER, PROCESSORS, library_path

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
"""No fused multiply-add (a * b + c with one rounding): all processors must return bit-identical results."""


def main() -> int:
    """Build all libraries; return the exit code of the compiler if it fails."""
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
