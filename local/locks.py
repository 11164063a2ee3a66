"""`make locks`: write the lock files again after a change of a requirement. Needs `make setup`, and the package index.

A lock file names every package that is installed, with the digests of all its files: wheels of every platform and every
supported Python, so one file serves them all. pip installs nothing whose digest is missing. The versions are those of
the requirements and `constraints.txt`.
"""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
LEAST = "3.11"
HEADER = "# Written by `make locks` from {source}; do not edit.\n"

COMMON = (
    "--universal",
    "--python-version",
    LEAST,
    "--generate-hashes",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",
)


def lock(source: Path, target: Path, *options: str) -> None:
    """Write the lock of one requirements file. Pins in `target` are not read, so that a removed package disappears."""
    target.unlink(missing_ok=True)
    uv = Path(sys.executable).parent / "uv"
    command: list[str | Path] = [uv, "pip", "compile", "--quiet", *COMMON, *options, source, "--output-file", target]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    target.write_text(HEADER.format(source=source.name) + target.read_text(encoding="utf-8"), encoding="utf-8")
    print(f"locks: {target.relative_to(REPOSITORY)}", flush=True)


def main() -> None:
    uv = REPOSITORY / "requirements-uv.lock"  # a new version of uv is locked by the one before
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "--only-binary=:all:", "-r", uv], check=True)
    lock(uv.with_suffix(".txt"), uv)
    lock(
        REPOSITORY / "requirements-dev.txt",
        REPOSITORY / "requirements-dev.lock",
        "--constraints",
        str(REPOSITORY / "constraints.txt"),
    )
    for source in sorted((REPOSITORY / "layers").glob("*/requirements.txt")):
        lock(source, source.with_suffix(".lock"), "--no-deps")


if __name__ == "__main__":
    main()
