"""The programs of the control plane, from the user's cache, or built by Go from the lock files in
`local/controlplane/`.

The Go source is not ours: the programs are `tool` lines of a `go.mod`, which `go.sum` pins. The cache's key consists of
the lock files, the Go release and the flags, so a changed pin builds beside the old one, and clones with the same pins
share a build.
"""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joiner_local.tooling import build_cache, command_progress, go_programs, toolchains
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


def kubernetes_version() -> str:
    """Return the release in the lock file, without the `v`.

    >>> kubernetes_version().startswith("1.")
    True
    """
    return go_programs.locked_version(SOURCES / "kubernetes", "k8s.io/kubernetes")


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
    digest = go_programs.build_digest(go, _linker_flags(), SOURCES / "kubernetes", SOURCES / "etcd")
    return f"{kubernetes_version()}-{digest}"


def _build(go: Path, folder: Path, say: Say) -> None:
    version = kubernetes_version()
    etcd_version = go_programs.locked_version(SOURCES / "etcd", ETCD_PACKAGE)
    kwok_version = go_programs.locked_version(SOURCES / "kubernetes", "sigs.k8s.io/kwok")
    releases = f"Kubernetes {version}, etcd {etcd_version}, KWOK {kwok_version}"
    say(f"building {releases}: some minutes, once on this machine")
    began = time.monotonic()
    # `go install` would name it after the last part of its path: server.
    etcd = [go, "build", "-v", "-trimpath", "-ldflags=-s -w", "-o", folder / "etcd", ETCD_PACKAGE]
    command_progress.run(
        "etcd", etcd, say, cwd=SOURCES / "etcd", env=go_programs.environment(), describe=go_programs.describe_build
    )
    tools = [go, "install", "-v", "-trimpath", f"-ldflags={_linker_flags()}", "tool"]
    command_progress.run(
        "Kubernetes",
        tools,
        say,
        cwd=SOURCES / "kubernetes",
        env=go_programs.environment() | {"GOBIN": str(folder)},
        describe=go_programs.describe_build,
    )
    if missing := Binaries(folder).missing():
        raise BinariesMissing(f"Go says it is done, but there is no {', '.join(missing)}")
    say(f"control plane built in {time.monotonic() - began:.0f} s")


def main() -> None:
    """`python -m joiner_local.control_plane.control_plane_binaries`: find or build, and print the folder."""
    print(find_or_build(Path(sys.prefix), lambda line: print(line, file=sys.stderr, flush=True)).folder)


if __name__ == "__main__":
    main()
