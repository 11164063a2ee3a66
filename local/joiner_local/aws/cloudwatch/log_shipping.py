"""Ship log lines of functions and state machines to CloudWatch Logs, and metrics in embedded metric format to
CloudWatch.

The caller does not wait: a queue takes the line, and one thread ships batches. Embedded metric format is what
Powertools prints ("Specification: Embedded metric format" in the CloudWatch User Guide).
"""

import datetime as dt
import json
import logging
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from joiner_local.aws.local_aws import ACCOUNT, REGION

log = logging.getLogger(__name__)

GATHERING = 0.05  # seconds between batches
LARGEST_BATCH = 5000


@dataclass(frozen=True, slots=True)
class LogLine:
    group: str
    stream: str
    at: int  # epoch milliseconds
    text: str


class LogShipper:
    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[LogLine] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="log-shipper", daemon=True).start()

    def ship(self, group: str, stream: str, text: str) -> None:
        self._lines.put(LogLine(group, stream, int(time.time() * 1000), text))

    def _run(self) -> None:
        while True:
            batch = [self._lines.get()]
            time.sleep(GATHERING)
            while not self._lines.empty() and len(batch) < LARGEST_BATCH:
                batch.append(self._lines.get())
            streams: dict[tuple[str, str], list[LogLine]] = defaultdict(list)
            for line in batch:
                streams[line.group, line.stream].append(line)
            for (group, stream), lines in streams.items():
                try:
                    _put(group, stream, lines)
                except Exception:
                    log.exception("lines for %s are lost", group)


def _put(group: str, stream: str, lines: list[LogLine]) -> None:
    from moto.logs.models import logs_backends

    logs = logs_backends[ACCOUNT][REGION]
    logs.ensure_log_group(group)
    if stream not in logs.groups[group].streams:
        logs.create_log_stream(group, stream)
    logs.put_log_events(group, stream, [{"timestamp": line.at, "message": line.text} for line in lines])
    for line in lines:
        for namespace, data in embedded_metrics(line.text):
            put_metrics(namespace, data)


def put_metrics(namespace: str, data: list[dict[str, Any]]) -> None:
    from moto.cloudwatch.models import cloudwatch_backends

    cloudwatch_backends[ACCOUNT][REGION].put_metric_data(namespace, data)


def embedded_metrics(line: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Return namespaces and their data in one line, if it is in embedded metric format.

    >>> metrics = '{"Timestamp": 0, "CloudWatchMetrics": [{"Namespace": "N", "Metrics": [{"Name": "m"}]}]}'
    >>> [(name, data[0]["Value"]) for name, data in embedded_metrics(f'{{"_aws": {metrics}, "m": 2}}')]
    [('N', 2.0)]
    """
    if not line.startswith("{") or '"_aws"' not in line:
        return
    try:
        document = json.loads(line)
        about = document["_aws"]
        at = dt.datetime.fromtimestamp(about["Timestamp"] / 1000, dt.UTC)
        for block in about["CloudWatchMetrics"]:
            data = [
                {
                    "MetricName": metric["Name"],
                    "Value": float(value),
                    "Unit": metric.get("Unit", "None"),
                    "Dimensions": [{"Name": name, "Value": str(document.get(name))} for name in dimensions],
                    "Timestamp": at,
                }
                for dimensions in block.get("Dimensions") or [[]]
                for metric in block["Metrics"]
                for value in _values(document.get(metric["Name"]))
            ]
            yield block["Namespace"], data
    except (KeyError, TypeError, ValueError):
        log.debug("not in embedded metric format: %.200s", line)


def _values(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
