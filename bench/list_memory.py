"""Memory and time of each function that lists objects, at 10,000 and 50,000 pods: ``python -m bench.list_memory``.

Each function runs once in a fresh process, as Lambda starts it. An API server serves pods of 4.8 kB
(`bench.large_cluster`), and moto serves DynamoDB and S3 in this process. Memory is the peak of the process,
including all imports. Lambda gives a function CPU in proportion to its memory (1,769 MB is one core), so the time
at that share is the CPU time times 1,769 over its memory, unless the elapsed time here was longer.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench.large_cluster import ClusterShape, StandIn
from bench.listing_functions import RUN
from bench.served_account import ServedAccount
from infra.function_configuration import CONFIGURATIONS

ONE_CORE: Final = 1769
"""The memory in MB for which Lambda gives one core."""
SHARE: Final = 0.5
"""The share of its memory that a function may use here; the rest is for Lambda's own runtime and for clusters with
longer objects."""


@dataclass(frozen=True, slots=True)
class Measure:
    """The measurements of one function in one cluster."""

    function: str
    shape: ClusterShape
    megabytes: float
    seconds: float
    cpu: float
    answer: str = ""

    @property
    def memory(self) -> int:
        """Return the configured memory of the function, in MB."""
        return CONFIGURATIONS[self.function].memory_mb

    @property
    def ratio(self) -> float:
        """Return the used share of the function's configured memory."""
        return self.megabytes / self.memory

    @property
    def at_its_share(self) -> float:
        """Return the seconds with the CPU that Lambda gives the function."""
        return max(self.seconds, self.cpu * ONE_CORE / self.memory)

    @property
    def holds(self) -> bool:
        """Return whether memory and time of the function suffice, with the required reserve."""
        return self.ratio < SHARE and self.at_its_share < CONFIGURATIONS[self.function].timeout_seconds


# In the fresh process


def measure(name: str, shape: ClusterShape, endpoint: str) -> Measure:
    """Run one function; this process must be a fresh one."""
    import importlib

    handler = importlib.import_module(f"functions.{name}.handler")
    began, used = time.monotonic(), time.process_time()
    answer = RUN[name](handler, shape, endpoint)
    seconds, cpu = time.monotonic() - began, time.process_time() - used
    return Measure(name, shape, _peak(), seconds, cpu, json.dumps(answer)[:200])


def _peak() -> float:
    """Return the peak memory in MB. It does not use getrusage, which includes the memory of the parent before this
    program was loaded."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


# In the process that serves


def elsewhere(name: str, shape: ClusterShape, endpoint: str, environment: Mapping[str, str]) -> Measure:
    """Measure in a separate process; raise RuntimeError with its last lines if it fails."""
    command = [
        sys.executable,
        "-m",
        "bench.list_memory",
        "--measure",
        name,
        "--shape",
        json.dumps(asdict(shape)),
        "--endpoint",
        endpoint,
    ]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed at {shape}: {done.stderr[-2000:]}")
    fields = json.loads(done.stdout.splitlines()[-1])
    return Measure(**{**fields, "shape": ClusterShape(**fields["shape"])})


def measures(shape: ClusterShape, names: Sequence[str] = tuple(RUN)) -> Iterator[Measure]:
    """Yield the measurements of each function in this cluster, in order."""
    account, api = ServedAccount(shape), StandIn(shape)
    try:
        for name in RUN:
            if name in names:
                yield elsewhere(name, shape, api.endpoint, {**account.environment, "BENCH_CA": api.ca})
    finally:
        api.close()
        account.close()


HEAD: Final = (
    f"{'function':22}{'pods':>8}{'pending':>9}{'nodes':>7}{'MB':>7}{'of MB':>7}{'ratio':>7}"
    f"{'s':>7}{'CPU s':>7}{'at share':>10}{'of s':>6}"
)


def line(one: Measure) -> str:
    """Return one row of the table."""
    shape, timeout = one.shape, CONFIGURATIONS[one.function].timeout_seconds
    sizes = f"{one.function:22}{shape.pods:8,}{shape.pending:9,}{shape.nodes:7,}"
    memory = f"{one.megabytes:7.0f}{one.memory:7,}{one.ratio:7.2f}"
    times = f"{one.seconds:7.1f}{one.cpu:7.1f}{one.at_its_share:10.1f}{timeout:6}"
    return f"{sizes}{memory}{times}{'' if one.holds else '  too large'}"


SHAPES: Final = (
    ClusterShape(10_000, pending=2_000, ended=2_000, booting=100),
    ClusterShape(50_000, pending=10_000, ended=10_000, booting=100),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if a function uses more than half of its memory, or exceeds its timeout."""
    parser = argparse.ArgumentParser(prog="python -m bench.list_memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--function",
        choices=tuple(RUN),
        action="append",
        help="only this one (may be repeated); some need documents of others",
    )
    parser.add_argument("--pods", type=int, help="one cluster of so many pods instead of both")
    parser.add_argument("--pending", type=int, default=0, help="how many of them found no node")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--shape", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--endpoint", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(asdict(measure(options.measure, ClusterShape(**options.shape), options.endpoint))))
        return 0
    shapes = (
        [ClusterShape(options.pods, pending=options.pending, ended=options.pods // 5, booting=100)]
        if options.pods
        else SHAPES
    )
    print(HEAD)
    good = True
    for shape in shapes:
        for one in measures(shape, options.function or tuple(RUN)):
            print(line(one), flush=True)
            good &= one.holds
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
