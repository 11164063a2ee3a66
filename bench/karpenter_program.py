"""Karpenter's KWOK program and its CRDs, from the Go module that the lock files in `bench/karpenter/` pin.

The program is Karpenter's own core with a provider whose nodes are objects only. It is built once into the user's
cache, as the control plane is; the CRDs are read from the downloaded module. Nothing of either is in this repository.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from joiner_local.control_plane.kube_api import Object
from joiner_local.tooling import build_cache, command_progress, go_programs, toolchains
from joiner_local.tooling.command_progress import Say

LOCKS: Final = Path(__file__).parent / "karpenter"
MODULE: Final = "sigs.k8s.io/karpenter"
PROGRAM: Final = "karpenter"
LINKER_FLAGS: Final = "-s -w"
CRDS: Final = ("kwok/charts/crds", "kwok/apis/crds")
"""Those of the chart allow the labels of the KWOK provider in requirements."""


def karpenter_version() -> str:
    """Return the release in the lock file.

    >>> karpenter_version().startswith("1.")
    True
    """
    return go_programs.locked_version(LOCKS, MODULE)


def find_or_build(venv: Path, say: Say) -> Path:
    """Return the program. The first call on a machine compiles for some minutes and reports its progress."""
    go = toolchains.find_or_install(toolchains.GO, venv, say)
    key = f"{karpenter_version()}-{go_programs.build_digest(go, LINKER_FLAGS, LOCKS)}"
    folder = build_cache.user_cache() / PROGRAM / key
    return build_cache.made_once(folder, lambda fresh: _build(go, fresh, say), what="Karpenter", say=say) / PROGRAM


def _build(go: Path, folder: Path, say: Say) -> None:
    say(f"building Karpenter {karpenter_version()}: some minutes, once on this machine")
    began = time.monotonic()
    # `go install` would name it after the last part of its path: kwok.
    flags = ["-v", "-trimpath", f"-ldflags={LINKER_FLAGS}", "-o", folder / PROGRAM]
    command_progress.run(
        "Karpenter",
        [go, "build", *flags, f"{MODULE}/kwok"],
        say,
        cwd=LOCKS,
        env=go_programs.environment(),
        describe=go_programs.describe_build,
    )
    say(f"Karpenter built in {time.monotonic() - began:.0f} s")


def resource_definitions(venv: Path, say: Say) -> Iterator[Object]:
    """Yield the CRDs of the pinned module; downloads the module unless Go's cache has it."""
    go = toolchains.find_or_install(toolchains.GO, venv, say)
    command = [str(go), "mod", "download", "-json", MODULE]
    answer = subprocess.run(
        command, cwd=LOCKS, env=go_programs.environment(), capture_output=True, text=True, check=True
    )
    module = Path(json.loads(answer.stdout)["Dir"])
    for folder in CRDS:
        for path in sorted((module / folder).glob("*.yaml")):
            yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))
