"""Metrics as log lines (CloudWatch's embedded metric format) with one dimension, the cluster, because each series costs
money.
"""

from collections.abc import Mapping

COUNT = "Count"
SECONDS = "Seconds"


def publish(cluster: str, counts: Mapping[str, float], *, unit: str = COUNT) -> None:
    """Publish those of `counts` that are not zero."""
    published = {name: value for name, value in counts.items() if value}
    if not published:
        return
    from aws_lambda_powertools.metrics import EphemeralMetrics

    metrics = EphemeralMetrics()
    metrics.add_dimension("cluster", cluster)
    for name, value in published.items():
        metrics.add_metric(name=name, unit=unit, value=value)
    metrics.flush_metrics()
