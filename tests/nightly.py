"""All long tests, one after another: `make nightly`.

Each target runs to its end, whatever became of the one before. The last lines say how long each took and which failed;
the exit code is 1 if one failed. `make nightly ONLY="law-test mix-test"` runs some of them, with the same report.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[1]
TARGETS: Final[Mapping[str, str]] = {
    "deadline-test": "searches that a deadline ends",
    "law-test": "laws with fresh seeds",
    "mutation-test": "10,000 mutations",
    "long-test": "what is too long for make test-all",
    "full-plan-test": "full plans",
    "mix-test": "mixes of 1,000 pods",
    "chaos-test": "ten minutes of races, and twenty of everything at once",
    "crash-test": "half of the places of the crash table, the other half the day after",
}
"""Targets of the Makefile, the longest last, and what each tests."""


@dataclass(frozen=True, slots=True)
class Ended:
    """One target that has ended."""

    name: str
    seconds: float
    code: int

    def __str__(self) -> str:
        minutes, seconds = divmod(round(self.seconds), 60)
        outcome = "passed" if self.code == 0 else f"FAILED ({self.code})"
        return f"{self.name:16} {minutes:4} min {seconds:2} s  {outcome}"


def run_all(
    commands: Mapping[str, Sequence[str]],
    *,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> list[Ended]:
    """Run each command by its name, also after one that failed; return how each ended."""
    ended = []
    for name, command in commands.items():
        say(f"▸ {' '.join(command)}")
        began = clock()
        code = subprocess.run(command, cwd=REPOSITORY, check=False).returncode
        ended.append(Ended(name, clock() - began, code))
        say(str(ended[-1]))
    return ended


def exit_code(ended: Sequence[Ended]) -> int:
    """Return 0 if all passed.

    >>> exit_code([Ended("a", 1.0, 0), Ended("b", 1.0, 2)]), exit_code([Ended("a", 1.0, 0)])
    (1, 0)
    """
    return int(any(each.code for each in ended))


def selected_targets(names: Sequence[str]) -> list[str]:
    """Return the targets with these names in the order of a whole run, all of them if there are no names; raise
    ValueError for a name that is none.

    >>> selected_targets(["mix-test", "law-test"])
    ['law-test', 'mix-test']
    """
    if unknown := [name for name in names if name not in TARGETS]:
        raise ValueError(f"no target of make nightly: {', '.join(unknown)}; its targets: {', '.join(TARGETS)}")
    return [name for name in TARGETS if not names or name in names]


def main(names: Sequence[str]) -> int:
    """Run these targets, or all; return the exit code, 2 for a name that is no target."""
    try:
        targets = selected_targets(names)
    except ValueError as reason:
        print(reason, file=sys.stderr)
        return 2
    ended = run_all({name: ("make", name) for name in targets}, say=lambda line: print(line, flush=True))
    print("", *(f"{each}   {TARGETS[each.name]}" for each in ended), sep="\n", flush=True)
    return exit_code(ended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
