"""Install locked packages into a virtual environment: with uv, or with pip if uv cannot.

uv checks the same digests and installs the same files; pip takes a minute of computing for them
(`docs/decisions/0007-libraries.md`). uv does not read pip's configuration, so its settings are passed on. If pip has
a setting that uv does not know, or if uv fails, pip installs the packages.

Only the standard library of Python 3.11: `local/setup.py` uses this before there is a virtual environment.
"""

import ast
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joiner_local.tooling import command_progress
from joiner_local.tooling.command_progress import Say, StepFailed

IRRELEVANT: Final = frozenset(
    {
        "break-system-packages",
        "cache-dir",
        "compile",
        "config-file",
        "disable-pip-version-check",
        "no-cache-dir",
        "no-color",
        "no-compile",
        "no-input",
        "no-python-version-warning",
        "no-warn-script-location",
        "prefer-binary",
        "progress-bar",
        "quiet",
        "require-hashes",
        "require-virtualenv",
        "retries",
        "root-user-action",
        "verbose",
    }
)
"""Settings of pip that change nothing of what is installed, and from where."""

PRECEDENCE: Final = ("global", "install", ":env:")
"""Sections of pip's configuration, the strongest last ("pip documentation", Configuration)."""


class Untranslatable(ValueError):
    """pip's configuration has a setting that uv does not know."""


@dataclass(frozen=True, slots=True)
class UvConfiguration:
    """Options for `uv pip install`, and environment variables."""

    options: tuple[str, ...]
    variables: Mapping[str, str]


def read_pip_configuration(listed: str) -> dict[str, str]:
    r"""Return the settings of `pip install` in the output of `pip config list`, by name without their section.

    >>> read_pip_configuration("global.timeout='5'\ninstall.timeout='9'\nfreeze.user='1'\n:env:.cert='/a.pem'\n")
    {'timeout': '9', 'cert': '/a.pem'}
    """
    found: dict[str, dict[str, str]] = {section: {} for section in PRECEDENCE}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in found:
            found[section][key] = str(ast.literal_eval(value))
    return {key: value for section in PRECEDENCE for key, value in found[section].items()}


def translate_pip_configuration(settings: Mapping[str, str]) -> UvConfiguration:
    """Return what uv needs for the same indexes, certificates and proxies.

    All indexes are searched, as pip does: the digests decide which file is right. Raises Untranslatable.

    >>> translate_pip_configuration({"extra-index-url": "https://a.test https://b.test", "timeout": "60"}).variables
    {'UV_INDEX': 'https://a.test https://b.test', 'UV_HTTP_TIMEOUT': '60'}
    """
    options: list[str] = ["--index-strategy", "unsafe-best-match"]
    variables: dict[str, str] = {}  # what may contain a password is no option: messages show the command
    for name, value in settings.items():
        match name:
            case "index-url":
                variables["UV_DEFAULT_INDEX"] = value
            case "extra-index-url":
                variables["UV_INDEX"] = " ".join(value.split())
            case "find-links":
                options += _each("--find-links", filter(None, map(_place, value.split())))
            case "trusted-host":
                options += _each("--allow-insecure-host", value.split())
            case "no-index":
                options += ["--no-index"] if value.lower() in ("1", "true", "t", "yes", "y", "on") else []
            case "cert":
                variables["SSL_CERT_FILE"] = value
            case "proxy":
                variables["ALL_PROXY"] = value
            case "timeout" | "default-timeout":
                variables["UV_HTTP_TIMEOUT"] = value
            case _ if name not in IRRELEVANT:
                raise Untranslatable(f"pip's configuration has {name}, which uv does not know")
    return UvConfiguration(tuple(options), variables)


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _place(named: str) -> str:
    """Return a place of files; empty for a folder that does not exist, which pip ignores and uv refuses."""
    if "://" in named:
        return named
    folder = Path(named).expanduser()
    return str(folder) if folder.exists() else ""


def _pip(python: Path) -> list[object]:
    # Byte code is compiled when a module is imported; for all at once it would take a minute.
    return [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]


def install_lock(python: Path, lock: Path, uv_lock: Path, say: Say) -> None:
    """Install what the lock file names into the environment of `python`; `uv_lock` is the lock file of uv itself.

    Raises StepFailed if pip cannot install it either.
    """
    try:
        _install_with_uv(python, lock, uv_lock, say)
    except (StepFailed, Untranslatable) as reason:
        say(f"packages: with pip instead of uv, which takes longer: {str(reason).splitlines()[-1]}")
        # A package that uv left half-installed has its metadata, by which pip takes it for complete
        again = ["--force-reinstall"] if isinstance(reason, StepFailed) else []
        command = [*_pip(python), *again, "--require-hashes", "-r", lock]
        command_progress.run("packages", command, say, describe=unpacking)


def _install_with_uv(python: Path, lock: Path, uv_lock: Path, say: Say) -> None:
    listed = subprocess.run([python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    if listed.returncode:
        raise Untranslatable(f"pip's configuration cannot be read: {listed.stderr.strip() or listed.returncode}")
    configuration = translate_pip_configuration(read_pip_configuration(listed.stdout))
    # Only a wheel: uv would be built for half an hour
    uv = [*_pip(python), "--require-hashes", "--only-binary=:all:", "-r", uv_lock]
    command_progress.run("uv", uv, say)
    command_progress.run(
        "packages",
        [
            *(python.parent / "uv", "pip", "install", "--python", python),
            *("--require-hashes", "-r", lock, *configuration.options),
        ],
        say,
        env=os.environ | configuration.variables,
    )


def install_editable(python: Path, project: Path, say: Say) -> None:
    """Install a project of this machine, so that its changes take effect at once. Raises StepFailed."""
    # Built with the installed setuptools: an isolated build would download another one, without a digest
    command_progress.run("the joiner command", [*_pip(python), "--no-deps", "--no-build-isolation", "-e", project], say)


def unpacking(text: Sequence[str]) -> str:
    """Describe the progress of pip, which prints all names at once, and then nothing until it is done."""
    last = command_progress.last_line(text)
    return f"unpacking {text[-1].count(',') + 1} packages" if last.startswith("Installing collected packages") else last
