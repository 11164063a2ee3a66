"""`make nightly` runs every long target to its end, says how long each took, and fails if one failed."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.conftest import PATIENT, STACKS, TESTS
from tests.nightly import REPOSITORY, TARGETS, Ended, exit_code, run_all, selected_targets

MAKEFILE = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
QUICK = {"setup", "locks", "up", "down", "demo", "help", "test", "test-all", "check", "bench", "nightly"}
"""Targets that are no long test."""


def program(code: int) -> tuple[str, ...]:
    return (sys.executable, "-c", f"raise SystemExit({code})")


def test_a_target_that_fails_stops_no_other_and_sets_the_exit_code() -> None:
    times = iter([0.0, 61.0, 61.0, 63.5, 63.5, 3663.5])
    printed: list[str] = []
    commands = {"first": program(0), "second": program(2), "third": program(0)}

    ended = run_all(commands, say=printed.append, clock=lambda: next(times))

    assert ended == [Ended("first", 61.0, 0), Ended("second", 2.5, 2), Ended("third", 3600.0, 0)]
    assert [line for line in printed if not line.startswith("▸")] == [
        "first               1 min  1 s  passed",
        "second              0 min  2 s  FAILED (2)",
        "third              60 min  0 s  passed",
    ]
    assert exit_code(ended) == 1
    assert exit_code(ended[:1]) == 0


def test_some_targets_run_alone_in_the_order_of_all_and_an_unknown_name_is_refused() -> None:
    assert selected_targets(()) == list(TARGETS)
    assert selected_targets(("crash-test", "law-test")) == ["law-test", "crash-test"]

    names = ("law-test", "full-crash-test")
    shown = subprocess.run(
        ("make", "--no-print-directory", "--dry-run", "nightly", f"ONLY={' '.join(names)}"),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    refused = subprocess.run(
        (sys.executable, "-m", "tests.nightly", *names), cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert shown.stdout.endswith(f"-m tests.nightly {' '.join(names)}\n")
    assert refused.returncode == 2
    assert refused.stderr.startswith("no target of make nightly: full-crash-test; its targets: deadline-test, ")


def test_every_long_target_of_the_makefile_is_run() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", MAKEFILE, flags=re.MULTILINE))

    assert set(TARGETS) == targets - QUICK


def test_each_target_has_its_long_setting_and_the_crash_table_half_of_its_places_a_night() -> None:
    recipes = dict(re.findall(r"^([a-z-]+):[^\n]*##[^\n]*\n((?:\t[^\n]*\n)+)", MAKEFILE, flags=re.MULTILINE))
    long = {
        "crash-test": "JOINER_CRASHES=$${JOINER_CRASHES:-night}",
        "chaos-test": "JOINER_CHAOS_SECONDS=600 JOINER_SOAK_SECONDS=1200",
        "full-plan-test": "JOINER_FULL_NODES=40",
        "mix-test": "JOINER_MIX_PODS=1000",
        "mutation-test": "JOINER_MUTATIONS=10000",
        "deadline-test": "bench.deadlines",
        "law-test": "tests.fresh_seeds",
        "long-test": "-m long",
    }

    assert set(long) == set(TARGETS)
    assert [name for name, command in long.items() if command not in recipes[name]] == []


def test_chaos_has_a_fresh_seed_each_time_unless_one_is_given() -> None:
    recipe = re.search(r"^chaos-test:[^\n]*\n((?:\t[^\n]*\n)+)", MAKEFILE, flags=re.MULTILINE)
    assert recipe is not None
    read = re.findall(r"JOINER_[A-Z]+_SEED=\S+\$\$\(date [^)]+\)\}", recipe[1])
    shown = " ".join(each.replace("$$", "$") for each in read)

    def seeds(**given: str) -> list[str]:
        echo = ("sh", "-c", f"echo {shown}")
        environment = {name: value for name, value in os.environ.items() if not name.endswith("_SEED")} | given
        return subprocess.run(echo, env=environment, capture_output=True, text=True, check=True).stdout.split()

    assert all(re.fullmatch(r"JOINER_(CHAOS|SOAK)_SEED=\d{10,}", each) for each in seeds())
    assert seeds(JOINER_CHAOS_SEED="7", JOINER_SOAK_SEED="8") == ["JOINER_CHAOS_SEED=7", "JOINER_SOAK_SEED=8"]


@pytest.mark.parametrize("target", TARGETS)
def test_the_programs_and_tests_of_a_target_exist(target: str) -> None:
    shown = subprocess.run(
        ["make", "--dry-run", target], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    (modules, paths) = (re.findall(pattern, shown) for pattern in (r"-m ((?:tests|bench)\.\S+)", r"(?<!\S)(tests/\S+)"))

    assert [each for each in modules if find_spec(each) is None] == []
    assert [each for each in paths if not (REPOSITORY / each).exists()] == []
    assert modules or paths or "-m long" in shown


def test_each_file_that_is_assigned_to_a_stack_exists_and_is_assigned_once() -> None:
    """A file that was renamed would run on the stack of all others, which would take longest."""
    there = {path.name for path in (TESTS / "e2e").rglob("test_*.py")}
    assigned = [name for files in STACKS.values() for name in files]

    assert sorted({*assigned, *PATIENT} - there) == []
    assert len(assigned) == len(set(assigned))
