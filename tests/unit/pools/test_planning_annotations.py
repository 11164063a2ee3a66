"""Annotations of a pool about plans, and what is reported about invalid values."""

from datetime import UTC, datetime
from typing import Any

import pytest

from joiner.pools import read_manifests
from joiner.pools.pool_planning import BlastRadius, PoolPlanning


def read(annotations: dict[str, Any], **spec: Any) -> tuple[PoolPlanning, list[str]]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default", "annotations": annotations},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}, **spec},
    }
    found = read_manifests([pool])
    return found.pools[0].planning, [
        f"{one.field} {one.remedy} ({one.severity})" for one in found.problems if one.field.startswith("metadata")
    ]


@pytest.mark.parametrize(
    ("name", "value", "settings"),
    [
        ("node-overhead-price", "0.025", PoolPlanning(overhead_price=0.025)),
        ("node-overhead-price", "0", PoolPlanning(overhead_price=0.0)),
        ("burstable", "full", PoolPlanning(full_burst=True)),
        ("burstable", "baseline", PoolPlanning()),
        ("capacity-mix", "spot=70%", PoolPlanning(spot_share=0.7)),
        ("capacity-mix", "spot=0%", PoolPlanning(spot_share=0.0)),
        ("blast-radius", "25%", PoolPlanning(blast_radius=BlastRadius(share=0.25))),
        ("blast-radius", "32", PoolPlanning(blast_radius=BlastRadius(vcpus=32))),
    ],
)
def test_each_annotation_sets_its_value(name: str, value: str, settings: PoolPlanning) -> None:
    assert read({f"joiner.dev/{name}": value}) == (settings, [])


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("node-overhead-price", "-1", 'give US$ an hour, such as "0.01"'),
        ("node-overhead-price", "cheap", 'give US$ an hour, such as "0.01"'),
        ("burstable", "ful", 'use baseline or full; did you mean "full"?'),
        ("capacity-mix", "70%", 'give the share of spot nodes, such as "spot=70%"'),
        ("capacity-mix", "spot=101%", 'give the share of spot nodes, such as "spot=70%"'),
        ("blast-radius", "0%", 'give a percentage of a workload\'s pods ("25%") or a number of vCPUs ("32")'),
        ("blast-radius", "some", 'give a percentage of a workload\'s pods ("25%") or a number of vCPUs ("32")'),
    ],
)
def test_an_invalid_value_is_a_warning_and_has_no_effect(name: str, value: str, remedy: str) -> None:
    settings, reported = read({f"joiner.dev/{name}": value})

    assert settings == PoolPlanning()
    assert reported == [f"metadata.annotations[joiner.dev/{name}] it has no effect; {remedy} (warning)"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("always", "'always' is no window of at most 31 days"),
        ("0 8 * * mon-fri for ever = 6", "'0 8 * * mon-fri for ever = 6' is no window of at most 31 days"),
        ("0 8 * * for 10h = 6", "'0 8 * *' has 4 fields; cron has five"),
        ("Europe/Olso: 0 8 * * * for 10h = 6", "Europe/Olso is no known time zone"),
        ("Europe/Oslo: ;", "it has no window"),
    ],
)
def test_a_schedule_that_cannot_be_read_is_a_warning(value: str, reason: str) -> None:
    settings, reported = read({"joiner.dev/schedule": value}, replicas=2)

    assert settings == PoolPlanning()
    assert reported == [
        f"metadata.annotations[joiner.dev/schedule] it has no effect; {reason}; write windows such as "
        '"Europe/Oslo: 0 8 * * mon-fri for 10h = 6" (warning)'
    ]


def test_a_window_that_never_begins_is_a_warning_and_the_others_count() -> None:
    settings, reported = read({"joiner.dev/schedule": "0 8 * * mon-fri for 10h = 6; 0 0 31 2 * for 1h = 2"}, replicas=2)

    assert settings.schedule is not None
    assert settings.schedule.replicas_at(datetime(2026, 11, 23, 8, tzinfo=UTC)) == 6
    assert reported == [
        "metadata.annotations[joiner.dev/schedule] '0 0 31 2 * for 1h = 2' never begins, so that it has no effect: "
        "correct it (warning)"
    ]


def test_a_static_pool_has_no_capacity_mix() -> None:
    settings, reported = read({"joiner.dev/capacity-mix": "spot=70%"}, replicas=2)

    assert settings == PoolPlanning()
    assert reported == [
        "metadata.annotations[joiner.dev/capacity-mix] it has no effect; a pool with spec.replicas gets its cheapest "
        "offering; set its requirements instead (warning)"
    ]


def test_a_schedule_needs_replicas() -> None:
    settings, reported = read({"joiner.dev/schedule": "0 8 * * * for 10h = 6"})

    assert settings == PoolPlanning()
    assert reported == [
        "metadata.annotations[joiner.dev/schedule] it has no effect; only a pool with spec.replicas has a schedule; "
        "set replicas, or remove it (warning)"
    ]
