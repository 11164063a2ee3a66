"""`make setup`: install everything that the checkout needs, with any Python from 3.11 on and no other package.

Creates `.venv/` (with the `joiner` command) and `node_modules/` (with the CDK's command line); installs Node's wheel
into `.venv/` if the machine has no Node. Each step writes a stamp of its inputs, so that a second run only compares the
stamps.
"""

import hashlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

LEAST = (3, 11)
REPOSITORY = Path(__file__).resolve().parent.parent
VENV = REPOSITORY / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = "requirements-dev.lock"
UV_LOCK = "requirements-uv.lock"

if sys.version_info < LEAST:
    sys.exit(
        f"Python {'.'.join(map(str, LEAST))} or newer is needed; this is {sys.version.split()[0]}. Try: make "
        "PYTHON=/path/to/python3 setup"
    )
sys.path.insert(0, str(Path(__file__).resolve().parent))

# imported after the check of the version, from the folder that the line above adds
from joiner_local.tooling import command_progress, package_installation, toolchains  # noqa: E402


def say(line: str) -> None:
    print(f"setup: {line}", flush=True)


def once(stamp: Path, made_from: list[Path], extra: str, what: str, make: Callable[[bool], None]) -> None:
    """Call `make(complete)` unless the stamp shows that it was done with exactly these inputs. `complete`: it was done
    with others, and not interrupted since.
    """
    digest = hashlib.sha256(extra.encode())
    for path in made_from:
        digest.update(path.read_bytes())
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    say(f"{what} …")
    began = time.monotonic()
    complete = stamp.exists()
    stamp.unlink(missing_ok=True)
    make(complete)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(digest.hexdigest())
    say(f"{what}: done in {time.monotonic() - began:.0f} s")


def make_venv(complete: bool) -> None:
    """Create the virtual environment; keep a complete one, because only packages changed."""
    if not (complete and PYTHON.exists()):
        command_progress.run("venv", [sys.executable, "-m", "venv", "--clear", VENV], say)


def install_packages(complete: bool) -> None:
    make_venv(complete)
    package_installation.install_lock(PYTHON, REPOSITORY / LOCK, REPOSITORY / UV_LOCK, say)
    package_installation.install_editable(PYTHON, REPOSITORY, say)


def install_cdk(_complete: bool) -> None:
    node = toolchains.find_or_install(toolchains.NODE, VENV, say)
    env = os.environ | {"PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    command_progress.run("CDK", [node.parent / "npm", "ci", "--no-audit", "--no-fund"], say, cwd=REPOSITORY, env=env)


def main() -> None:
    files = [REPOSITORY / name for name in (LOCK, UV_LOCK, "requirements-install.txt", "pyproject.toml")]
    # The path is an input: the .venv of a moved or copied checkout points elsewhere.
    once(
        VENV / ".setup", files, f"{REPOSITORY} {sys.version_info[:2]}", "Python packages into .venv/", install_packages
    )
    lock = [REPOSITORY / "package.json", REPOSITORY / "package-lock.json"]
    once(
        REPOSITORY / "node_modules" / ".setup",
        lock,
        str(VENV),
        "the CDK's command line into node_modules/",
        install_cdk,
    )


if __name__ == "__main__":
    try:
        main()
    except (command_progress.StepFailed, toolchains.ToolMissing) as error:
        sys.exit(f"setup: {error}")
    except KeyboardInterrupt:
        sys.exit("setup: interrupted; run it again to continue")
