"""A pod that may move, as the simulation lets it wait for a node: all that does not follow from its node is kept."""

from dataclasses import fields, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from joiner.cluster import Pod
from joiner.cluster.pod_constraints import PodConstraints
from joiner.disruption.cluster_simulation import as_pending

OF_ITS_NODE = {"node_name", "nominated_node", "phase", "deletion", "gates", "unschedulable", "held"}
AT = f"{datetime(2026, 11, 30, 7, tzinfo=UTC):%Y-%m-%dT%H:%M:%SZ}"
OTHERS: dict[type, Any] = {
    str: "other",
    bool: False,
    int: 7,
    tuple: ("other",),
    dict: {"app": "web"},
    MappingProxyType: {"a": "b"},
}


def test_a_pod_keeps_every_field_that_does_not_follow_from_its_node() -> None:
    plain = Pod("shop", "web-0")
    own = [each.name for each in fields(Pod) if each.init and each.name not in OF_ITS_NODE | {"constraints"}]
    changed: dict[str, Any] = {
        name: not value if isinstance(value := getattr(plain, name), bool) else OTHERS[type(value)] for name in own
    }
    running = replace(
        plain, **changed, constraints=PodConstraints(priority=3), node_name="there", phase="Running", deletion=AT
    )

    waiting = as_pending(running)

    assert {name: getattr(waiting, name) for name in own} == changed
    assert waiting.constraints is running.constraints
    assert (waiting.node_name, waiting.phase, waiting.deletion, waiting.unschedulable) == ("", "Pending", "", "")
    assert not any(getattr(plain, name) == value for name, value in changed.items())
