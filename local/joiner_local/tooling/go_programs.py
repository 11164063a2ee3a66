"""Programs that Go builds from lock files: a folder with a `go.mod`, whose `tool` lines name them, and its `go.sum`.

None of the source is in this repository. A build depends on the lock files, the Go release and the flags only, so a
digest of them is the key of a cached build.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

TRIMMED = b"-trimpath CGO_ENABLED=0"


def environment() -> dict[str, str]:
    """Return an environment without the user's Go settings, except the source of modules and the folders of Go's
    caches.
    """
    settled = {
        "GOFLAGS": "-mod=readonly",
        "GOWORK": "off",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
        "GOOS": "",
        "GOARCH": "",
    }
    return {**os.environ, **settled}


def locked_version(folder: Path, module: str) -> str:
    """Return the version of a module in the lock file of a folder, without the `v`."""
    pattern = rf"^\s*(?:require )?{re.escape(module)} v(\S+)"
    found = re.search(pattern, (folder / "go.mod").read_text(), re.MULTILINE)
    assert found is not None, f"{folder}/go.mod names no {module}"
    return found[1]


def build_digest(go: Path, linker_flags: str, *folders: Path) -> str:
    """Return a digest of the Go release, the flags and the lock files of the folders."""
    release = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256(release.encode() + linker_flags.encode() + TRIMMED)
    for folder in folders:
        for name in ("go.mod", "go.sum"):
            digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:16]


def describe_build(output: Sequence[str]) -> str:
    """Describe the progress: Go prints each package when it begins it, and each module that it downloads.

    >>> describe_build(["go: downloading k8s.io/api v0.36.3", "net/http", "k8s.io/api/core/v1"])
    '2 packages compiled, now k8s.io/api/core/v1'
    """
    packages = sum(not line.startswith("go: ") for line in output)
    return f"{packages} packages compiled, now {output[-1].removeprefix('go: ')}" if output else "reading its modules"
