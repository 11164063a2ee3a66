"""Bad conditions of nodes, and for how long their pool tolerates them, from manifests, without Joiner's code.

Sources: Karpenter, "Disruption" (node auto repair), and `docs/pool-annotations.md`.

>>> bad = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "1970-01-01T00:00:00Z"}
>>> node = {"metadata": {"name": "a"}, "status": {"conditions": [bad]}}
>>> find_intolerable(node, None, 29 * 60), find_intolerable(node, None, 30 * 60)
('', 'Ready')
>>> pool = {"metadata": {"annotations": {TOLERANCES: "Ready=Never,KernelReady=1m"}}}
>>> find_intolerable(node, pool, 30 * 60)
''
"""

from collections.abc import Mapping
from typing import Final

from joiner_local.control_plane.kube_api import Object
from tests.e2e.allowed_disruptions import seconds
from tests.e2e.observed_manifests import SOON, annotations, epoch

REPAIR: Final = "joiner.dev/node-repair"
TOLERANCES: Final = "joiner.dev/node-repair-tolerances"
BAD: Final = {
    "Ready": ("False", "Unknown"),
    "AcceleratedHardwareReady": ("False",),
    "ContainerRuntimeReady": ("False",),
    "KernelReady": ("False",),
    "NetworkingReady": ("False",),
    "StorageReady": ("False",),
}
"""Conditions of a node, and the statuses for which it is repaired."""
TOLERATED: Final = {**dict.fromkeys(BAD, "30m"), "AcceleratedHardwareReady": "10m"}
NEVER: Final = "Never"


def find_intolerable(node: Object, pool: Object | None, at: float) -> str:
    """Return the condition of a node that is bad for longer than its pool tolerates; empty if there is none."""
    declared = annotations(pool) if pool is not None else {}
    if declared.get(REPAIR) == "disabled":
        return ""
    tolerated = {**TOLERATED, **_read(declared.get(TOLERANCES, ""))}
    found = (
        each["type"]
        for each in node.get("status", {}).get("conditions", [])
        if each["status"] in BAD.get(each["type"], ())
        and tolerated[each["type"]] != NEVER
        and at + SOON >= epoch(each["lastTransitionTime"]) + seconds(tolerated[each["type"]])
    )
    return next(found, "")


def _read(declared: str) -> Mapping[str, str]:
    pairs = (part.partition("=") for part in declared.split(",") if part)
    return {kind.strip(): tolerance.strip() for kind, _, tolerance in pairs}
