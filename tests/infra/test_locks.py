"""The lock files define what is installed: every package with its files' digests, for all Pythons and platforms."""

import json
import re

import pytest

from tests.infra.conftest import ROOT

LOCKS = {
    "requirements-dev.lock": "requirements-dev.txt",
    "requirements-uv.lock": "requirements-uv.txt",
    **{
        f"layers/{name}/requirements.lock": f"layers/{name}/requirements.txt"
        for name in ("kubernetes", "planning", "runtime")
    },
}
ENTRY = re.compile(
    r"^([\w.-]+)(?:\[[\w,]+\])?==(\S+)(?: ;[^\\]*)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)


def _locked(name: str) -> dict[str, tuple[str, int]]:
    """Return version and number of digests, by the package's normalised name."""
    text = (ROOT / name).read_text()
    found = {_normal(package): (version, digests.count("--hash")) for package, version, digests in ENTRY.findall(text)}
    assert len(found) == len(re.findall(r"^\w", text, re.MULTILINE)), (
        "every line is a comment, a pin with digests, or a digest"
    )
    return found


def _pinned(name: str) -> dict[str, str]:
    """Return the pins of a requirements file and of those that it includes."""
    path = ROOT / name
    found: dict[str, str] = {}
    for line in path.read_text().splitlines():
        requirement = line.split("#")[0].strip()
        if requirement.startswith("-r "):
            found |= _pinned(str((path.parent / requirement[3:]).relative_to(ROOT)))
        elif "==" in requirement:
            package, _, version = requirement.partition("==")
            found[_normal(package.split("[")[0])] = version
    return found


def _normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_what_is_pinned_with_its_digests(lock: str) -> None:
    locked, pinned = _locked(lock), _pinned(LOCKS[lock])

    assert {package: locked[package][0] for package in pinned} == pinned, "run `make locks`"
    assert all(digests for _, digests in locked.values())


def test_the_lock_and_the_constraints_name_the_same_versions() -> None:
    constraints, locked = _pinned("constraints.txt"), _locked("requirements-dev.lock")

    differing = {
        package: (version, locked[package][0]) for package, version in constraints.items() if package in locked
    }
    assert {package: pair for package, pair in differing.items() if pair[0] != pair[1]} == {}
    assert constraints.keys() - locked.keys() == set()


@pytest.mark.parametrize("package", ["numpy", "highspy", "msgspec"])
def test_a_lock_serves_every_python_and_both_architectures(package: str) -> None:
    (lock,) = (name for name in LOCKS if name.startswith("layers/") and package in _pinned(LOCKS[name]))

    # From 3.11 to 3.14, on x86_64 and on arm64, for Linux and for macOS: at least sixteen wheels
    assert _locked(lock)[package][1] >= 16


@pytest.mark.parametrize("lock", [*LOCKS, "package-lock.json"])
def test_a_lock_names_no_host(lock: str) -> None:
    assert re.findall(r"https?://[\w.-]+|--index-url|--find-links", (ROOT / lock).read_text()) == []


def test_npm_checks_the_digest_of_every_package() -> None:
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert all(each["integrity"].startswith("sha512-") for name, each in packages.items() if name)
