"""All laws (hypothesis) with seeds that no run had before: `make law-test`.

Each seed is printed. `JOINER_FRESH_SEEDS=1 pytest --hypothesis-seed=SEED FILE` runs a law with the same examples again.
"""

import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
SEEDS: Final = 3
WORKERS: Final = "2"


def law_files() -> list[Path]:
    """Return the files of tests that have laws.

    >>> [path.name for path in law_files() if "unplaceable" in path.name]
    ['test_laws_of_unplaceable_pods.py']
    """
    return [path for path in sorted(TESTS.rglob("test_*.py")) if "from hypothesis" in path.read_text(encoding="utf-8")]


def main() -> int:
    """Run all laws once with each seed, also after one that failed; return the exit code."""
    files = [str(path.relative_to(TESTS.parent)) for path in law_files()]
    codes = []
    for _ in range(SEEDS):
        seed = str(secrets.randbelow(2**31))
        print(f"▸ seed {seed}: {len(files)} files of laws", flush=True)
        command = (sys.executable, "-m", "pytest", "-q", "-n", WORKERS, f"--hypothesis-seed={seed}", *files)
        environment = {**os.environ, "JOINER_FRESH_SEEDS": "1"}
        codes.append(subprocess.run(command, cwd=TESTS.parent, env=environment, check=False).returncode)
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
