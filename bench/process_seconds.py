"""CPU time of the programs of a local stack, by name, from `/proc`.

On one machine the API server, the scheduler, the simulated kubelets and the local AWS use the cores that Joiner's
functions use. On AWS and EKS each has its own. So a benchmark shows them beside the functions, whose sandboxes are not
counted here: they are in sessions of their own.
"""

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from joiner_local.stack.stack_processes import PROC, ProcessIdentity, session_members

TICKS: Final = os.sysconf("SC_CLK_TCK")
OWN: Final = "joiner_local."


def cpu_seconds(supervisor: ProcessIdentity) -> dict[str, float]:
    """Return the CPU seconds so far of the programs that this supervisor started, and of itself, by name."""
    found: defaultdict[str, float] = defaultdict(float)
    for member in session_members(supervisor):
        try:
            command = (PROC / str(member.pid) / "cmdline").read_bytes().decode(errors="replace")
            stat = (PROC / str(member.pid) / "stat").read_text()
        except OSError:  # it ended meanwhile
            continue
        found[program_name(command.rstrip("\0").split("\0"))] += ticks_used(stat) / TICKS
    return dict(found)


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return what each program used between two readings, the most first.

    >>> spent({"etcd": 1.0}, {"etcd": 1.5, "aws.server": 4.0})
    {'aws.server': 4.0, 'etcd': 0.5}
    """
    used = {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}
    return dict(sorted(used.items(), key=lambda each: -each[1]))


def program_name(command: list[str]) -> str:
    """Return the name of a program by its command line; of our own modules without their package.

    >>> program_name(["/usr/bin/python3", "-m", "joiner_local.node_agent", "--cluster", "a"])
    'node_agent'
    >>> program_name(["/cache/kube-apiserver", "--secure-port=1"])
    'kube-apiserver'
    """
    module = next((word for word in command if word.startswith(OWN)), "")
    return module.removeprefix(OWN) or Path(command[0]).name


def ticks_used(stat: str) -> int:
    """Return the clock ticks of a process in user and system mode, from its `/proc/PID/stat`.

    >>> ticks_used("7 (a b) S 1 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0 1 0 99")
    300
    """
    user, system = stat.rpartition(")")[2].split()[11:13]
    return int(user) + int(system)
