"""An interpreter that simulates Lambda's managed runtime: only AWS's runtime client and boto3 are installed, as on AWS.

Therefore a function whose layers lack a package fails here as on AWS. The machine may have one interpreter for each of
its Python versions: a function runs on the version that its runtime names, because versions differ in more than syntax
(3.13 verifies certificates strictly).
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from joiner_local.tooling import build_cache, command_progress
from joiner_local.tooling.command_progress import Say

CONSTRAINTS: Final = Path(__file__).parents[3] / "constraints.txt"
PACKAGES: Final = ("awslambdaric", "boto3")


def find_or_make(say: Say, version: str = "") -> Path | None:
    """Return the interpreter for a version such as ``3.13``, by default this process's own; None if the machine lacks
    that Python.

    The first call on a machine installs it into the user's cache.
    """
    base = interpreter(version)
    if base is None:
        return None
    return (
        build_cache.made_once(_folder(base), lambda fresh: _make(base, fresh, say), what="Lambda runtime", say=say)
        / "bin"
        / "python"
    )


def own(say: Say) -> Path:
    """Return the interpreter of this process's version."""
    found = find_or_make(say)
    if found is None:
        raise ModuleNotFoundError(f"{sys.executable} does not run")
    return found


def made(version: str) -> Path | None:
    """Return the interpreter that `find_or_make` made before, if any."""
    base = interpreter(version)
    python = _folder(base) / "bin" / "python" if base is not None else None
    return python if python is not None and python.exists() else None


def interpreter(version: str) -> Path | None:
    """Return a Python of that version (two numbers) on this machine: this one, one on the path, or one that pyenv or uv
    installed.
    """
    if version in ("", "{}.{}".format(*sys.version_info[:2])):
        return Path(sys.executable)
    return next((each for each in _candidates(version) if full_version(each).rpartition(".")[0] == version), None)


def full_version(python: Path) -> str:
    """Return the full version, such as ``3.13.0``; empty if it does not run (pyenv's shims refuse some versions)."""
    command = [str(python), "-c", "import sys; print('{}.{}.{}'.format(*sys.version_info[:3]))"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()


def _candidates(version: str) -> Iterator[Path]:
    if found := shutil.which(f"python{version}"):
        yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{version}*/bin/python{version}"))
    yield from sorted((Path.home() / ".local/share/uv/python").glob(f"cpython-{version}*/bin/python{version}"))


def _folder(base: Path) -> Path:
    pins = "\n".join(line for line in CONSTRAINTS.read_text().splitlines() if line)
    mine = base == Path(sys.executable)
    version, prefix = (
        ("{}.{}.{}".format(*sys.version_info[:3]), sys.base_prefix) if mine else (full_version(base), str(base))
    )
    key = hashlib.sha256(f"{prefix} {version} {PACKAGES} {pins}".encode()).hexdigest()[:16]
    return build_cache.user_cache() / "runtime" / f"python{version}-{key}"


def _make(base: Path, folder: Path, say: Say) -> None:
    """Create the venv. The caller may rename it, because only its `python` is used, which finds its packages relative
    to itself.
    """
    say(f"making the interpreter that plays Lambda's runtime, once ({base})")
    command_progress.run("venv", [base, "-m", "venv", "--without-pip", folder], say)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--disable-pip-version-check"]
    command_progress.run("pip", [*pip, "-c", CONSTRAINTS, *PACKAGES], say)
