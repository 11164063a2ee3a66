"""Runs `joiner explain pod` for what would have to change, and `joiner plan` to try it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.unit.cli.command_runs import joiner, write


def only(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def remedy(
    folder: Path, catalogue: Path, *manifests: Mapping[str, Any], name: str = "a", settings: Path | None = None
) -> str:
    """Return what would have to change for the pod."""
    more = ["--settings", settings] if settings else []
    out = joiner("explain", "pod", name, "-f", write(folder, *manifests), "--catalogue", catalogue, *more).out
    lines = [line.partition("What would have to change: ")[2] for line in out.splitlines()]
    return " | ".join(filter(None, lines))


def is_placed(folder: Path, catalogue: Path, *manifests: Mapping[str, Any], settings: Path | None = None) -> bool:
    """Return whether the plan places all pods."""
    more = ["--settings", settings] if settings else []
    return joiner("plan", "-f", write(folder, *manifests), "--catalogue", catalogue, *more).exit_code == 0
