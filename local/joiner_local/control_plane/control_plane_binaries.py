"""The programs of the control plane, from the user's cache, or built by Go from the lock files in
`local/controlplane/`.

The Go source is not ours: the programs are `tool` lines of a `go.mod`, which `go.sum` pins. The cache's key consists of
the lock files, the Go release and the flags, so a changed pin builds beside the old one, and clones with the same pins
share a build.
"""

import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joiner_local.tooling import build_cache, command_progress, toolchains
from joiner_local.tooling.command_progress import Say

SOURCES: Final = Path(__file__).parents[2] / "controlplane"
OVERRIDE: Final = "JOINER_CONTROLPLANE"  # a folder that contains the programs
ETCD_PACKAGE: Final = "go.etcd.io/etcd/server/v3"


class BinariesMissing(RuntimeError):
    """Programs are missing in the given folder."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The folder with the programs, by name."""

    folder: Path

    NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")

    def __getitem__(self, name: str) -> Path:
        return self.folder / name

    def missing(self) -> list[str]:
        return [name for name in self.NAMES if not os.access(self[name], os.X_OK)]


def find_or_build(venv: Path, say: Say) -> Binaries:
    """Return the programs. The first call on a machine compiles for several minutes and reports its progress."""
    if elsewhere := os.environ.get(OVERRIDE):
        binaries = Binaries(Path(elsewhere).resolve())
        if missing := binaries.missing():
            raise BinariesMissing(f"{OVERRIDE}={elsewhere} lacks {', '.join(missing)}")
        return binaries
    go = toolchains.find_or_install(toolchains.GO, venv, say)
    folder = build_cache.user_cache() / "controlplane" / _key(go)
    return Binaries(build_cache.made_once(folder, lambda fresh: _build(go, fresh, say), what="control plane", say=say))


def _environment() -> dict[str, str]:
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


def kubernetes_version() -> str:
    """Return the release in the lock file, without the `v`.

    >>> kubernetes_version().startswith("1.")
    True
    """
    return _locked("kubernetes", "k8s.io/kubernetes")


def _locked(folder: str, module: str) -> str:
    found = re.search(
        rf"^\s*(?:require )?{re.escape(module)} v(\S+)", (SOURCES / folder / "go.mod").read_text(), re.MULTILINE
    )
    assert found is not None, f"{SOURCES / folder}/go.mod names no {module}"
    return found[1]


def _linker_flags() -> str:
    """Return the flags that set Kubernetes' own release; without them it reports v0.0.0, and kubectl warns of version
    skew.
    """
    version = kubernetes_version()
    major, minor, _ = version.split(".", 2)
    stamp = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(
        ["-s -w", *(f"-X {package}.{name}={value}" for package in packages for name, value in stamp.items())]
    )


def _key(go: Path) -> str:
    release = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256(release.encode() + _linker_flags().encode() + b"-trimpath CGO_ENABLED=0")
    for folder in ("kubernetes", "etcd"):
        for name in ("go.mod", "go.sum"):
            digest.update((SOURCES / folder / name).read_bytes())
    return f"{kubernetes_version()}-{digest.hexdigest()[:16]}"


def _build(go: Path, folder: Path, say: Say) -> None:
    version = kubernetes_version()
    releases = (
        f"Kubernetes {version}, etcd {_locked('etcd', ETCD_PACKAGE)}, KWOK {_locked('kubernetes', 'sigs.k8s.io/kwok')}"
    )
    say(f"building {releases}: some minutes, once on this machine")
    began = time.monotonic()
    # `go install` would name it after the last part of its path: server.
    etcd = [go, "build", "-v", "-trimpath", "-ldflags=-s -w", "-o", folder / "etcd", ETCD_PACKAGE]
    command_progress.run("etcd", etcd, say, cwd=SOURCES / "etcd", env=_environment(), describe=_compiling)
    tools = [go, "install", "-v", "-trimpath", f"-ldflags={_linker_flags()}", "tool"]
    command_progress.run(
        "Kubernetes",
        tools,
        say,
        cwd=SOURCES / "kubernetes",
        env=_environment() | {"GOBIN": str(folder)},
        describe=_compiling,
    )
    if missing := Binaries(folder).missing():
        raise BinariesMissing(f"Go says it is done, but there is no {', '.join(missing)}")
    say(f"control plane built in {time.monotonic() - began:.0f} s")


def _compiling(output: Sequence[str]) -> str:
    """Describe the progress: Go prints each package when it begins it, and each module that it downloads.

    >>> _compiling(["go: downloading k8s.io/api v0.36.3", "net/http", "k8s.io/api/core/v1"])
    '2 packages compiled, now k8s.io/api/core/v1'
    """
    packages = sum(not line.startswith("go: ") for line in output)
    return f"{packages} packages compiled, now {output[-1].removeprefix('go: ')}" if output else "reading its modules"


def main() -> None:
    """`python -m joiner_local.control_plane.control_plane_binaries`: find or build, and print the folder."""
    print(find_or_build(Path(sys.prefix), lambda line: print(line, file=sys.stderr, flush=True)).folder)


if __name__ == "__main__":
    main()
