"""Events of NodePools whose launched nodes begin or cease to register."""

from collections.abc import Mapping
from typing import Any

from joiner.pools.conditions import Conditions
from joiner.pools.registration_health import HEALTHY
from joiner.reporting.events import Event, Subject


def report_registration_health(before: Mapping[str, Any], changes: Mapping[str, Any]) -> list[Event]:
    """Return the event of a pool whose condition becomes False, or becomes True after it was False.

    `before` is the pool's manifest, `changes` the patch of its status.
    """
    known = Conditions.from_kube((before.get("status") or {}).get("conditions"))[HEALTHY]
    now = Conditions.from_kube(changes["status"]["conditions"])[HEALTHY]
    if now.status == known.status or (now.status != "False" and known.status != "False"):
        return []
    subject = Subject("karpenter.sh/v1", "NodePool", str(before["metadata"]["name"]), before["metadata"].get("uid", ""))
    if now.status == "False":
        return [Event(subject, "NodeRegistrationUnhealthy", "Register", now.message, "Warning", news=now.reason)]
    return [Event(subject, HEALTHY, "Register", now.message, news=now.status)]
