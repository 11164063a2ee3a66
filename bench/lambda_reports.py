"""The REPORT line that Lambda writes for each invocation, read from the log groups of an account.

>>> times = "REPORT RequestId: a\\tDuration: 12.50 ms\\tBilled Duration: 213 ms"
>>> line = times + "\\tMemory Size: 512 MB\\tMax Memory Used: 71 MB\\tInit Duration: 200.00 ms"
>>> Report.read("plan_capacity", line)
Report(function='plan_capacity', milliseconds=12.5, billed=213.0, memory_mb=512, used_mb=71, init=200.0)
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

PATTERN: Final = re.compile(
    r"REPORT RequestId: \S+\tDuration: ([\d.]+) ms\tBilled Duration: ([\d.]+) ms\tMemory Size: (\d+) MB\tMax "
    r"Memory Used: (\d+) MB"
    r"(?:\tInit Duration: ([\d.]+) ms)?"
)


@dataclass(frozen=True, slots=True)
class Report:
    """One invocation: its duration, its billed duration, and its cold start (0 for a warm one), in milliseconds."""

    function: str
    milliseconds: float
    billed: float
    memory_mb: int
    used_mb: int
    init: float

    @classmethod
    def read(cls, function: str, line: str) -> "Report | None":
        """Parse a log line; return None if it is not a REPORT line."""
        found = PATTERN.search(line)
        if found is None:
            return None
        duration, billed, memory, used, init = found.groups()
        return cls(function, float(duration), float(billed), int(memory), int(used), float(init or 0))

    @property
    def gb_seconds(self) -> float:
        """Return the billed amount: the function's memory in GB, times the billed seconds."""
        return self.memory_mb / 1024 * self.billed / 1000


def reports(functions: Any, logs: Any, since: float) -> Iterator[Report]:
    """Yield every invocation that ended after `since` (seconds since the epoch), by function; `functions` and `logs`
    are clients of Lambda and CloudWatch Logs."""
    for page in functions.get_paginator("list_functions").paginate():
        for function in page["Functions"]:
            name = function["Environment"]["Variables"].get("POWERTOOLS_SERVICE_NAME", function["FunctionName"])
            for line in _lines(logs, function["LoggingConfig"]["LogGroup"], since):
                if report := Report.read(name, line):
                    yield report


def service_names(functions: Any) -> dict[str, str]:
    """Return the names of Joiner's functions, as in its folders, by their names in the account."""
    return {
        function["FunctionName"]: function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        for page in functions.get_paginator("list_functions").paginate()
        for function in page["Functions"]
        if "POWERTOOLS_SERVICE_NAME" in function.get("Environment", {}).get("Variables", {})
    }


def _lines(logs: Any, group: str, since: float) -> Iterator[str]:
    for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group, startTime=int(since * 1000)):
        for event in page["events"]:
            yield from event["message"].splitlines()
