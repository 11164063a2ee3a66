"""`make setup`: everything that the checkout itself needs, by any Python from 3.11 on, with nothing installed.

Makes `.venv/` (with the `joiner` command) and `node_modules/` (with the CDK's command line); brings Node's wheel into `.venv/` where the
machine has no Node. Each step leaves a stamp with what it was made from, so that a second run looks at a few files and is done.
"""

import hashlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

LEAST = (3, 11)
REPOSITORY = Path(__file__).resolve().parent.parent
VENV = REPOSITORY / ".venv"
PYTHON = VENV / "bin" / "python"

if sys.version_info < LEAST:
    sys.exit(
        f"Python {'.'.join(map(str, LEAST))} or newer is needed; this is {sys.version.split()[0]}. Try: make PYTHON=/path/to/python3 setup"
    )
sys.path.insert(0, str(Path(__file__).resolve().parent))

from joiner_local import progress, toolchains  # noqa: E402 - found by the line above, after the check of the version


def say(line: str) -> None:
    print(f"setup: {line}", flush=True)


def once(stamp: Path, made_from: list[Path], extra: str, what: str, make: Callable[[], None]) -> None:
    """`make()` unless the stamp says that it was done from exactly this."""
    digest = hashlib.sha256(extra.encode())
    for path in made_from:
        digest.update(path.read_bytes())
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    say(f"{what} …")
    began = time.monotonic()
    make()
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(digest.hexdigest())
    say(f"{what}: done in {time.monotonic() - began:.0f} s")


def make_venv() -> None:
    """A whole one may stay: it is other packages that changed. One whose interpreter has gone is made again."""
    if not PYTHON.exists():
        progress.run("venv", [sys.executable, "-m", "venv", "--clear", VENV], say)


def unpacking(said: Sequence[str]) -> str:
    """pip says all names at once, and then nothing until it is done."""
    last = progress.last_line(said)
    return f"unpacking {said[-1].count(',') + 1} packages" if last.startswith("Installing collected packages") else last


def install_packages() -> None:
    make_venv()
    # Byte code is made as modules are imported; made for all of them at once it would take a minute.
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
    progress.run("packages", [*pip, "--require-hashes", "-r", REPOSITORY / "requirements-dev.lock"], say, told=unpacking)
    # Built by the setuptools that was just installed: an isolated build would bring another one, without a hash
    progress.run("the joiner command", [*pip, "--no-deps", "--no-build-isolation", "-e", REPOSITORY], say)


def install_cdk() -> None:
    node = toolchains.find_or_install(toolchains.NODE, VENV, say)
    env = os.environ | {"PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    progress.run("CDK", [node.parent / "npm", "ci", "--no-audit", "--no-fund"], say, cwd=REPOSITORY, env=env)


def main() -> None:
    files = [REPOSITORY / name for name in ("requirements-dev.lock", "requirements-install.txt", "pyproject.toml")]
    # A checkout that was moved or copied has a .venv that points elsewhere: its path is part of what it was made from.
    once(VENV / ".setup", files, f"{REPOSITORY} {sys.version_info[:2]}", "Python packages into .venv/", install_packages)
    lock = [REPOSITORY / "package.json", REPOSITORY / "package-lock.json"]
    once(REPOSITORY / "node_modules" / ".setup", lock, str(VENV), "the CDK's command line into node_modules/", install_cdk)


if __name__ == "__main__":
    try:
        main()
    except (progress.StepFailed, toolchains.ToolMissing) as error:
        sys.exit(f"setup: {error}")
    except KeyboardInterrupt:
        sys.exit("setup: interrupted; the next one goes on")
