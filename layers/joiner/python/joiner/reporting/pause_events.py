"""Events while Joiner is paused, on every pool and on the pods that wait for a node: users check both."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from joiner.cluster import Pod
from joiner.reporting.events import Event, Subject

POOLS: Final[Mapping[str, tuple[str, str]]] = {
    "nodepools": ("NodePool", "karpenter.sh/v1"),
    "provisioners": ("Provisioner", "karpenter.sh/v1alpha5"),
}
"""Plural name of a list -> kind and API version of its items, the invalid ones included."""


def report_pause(lists: Mapping[str, Sequence[Mapping[str, Any]]], cluster: str) -> list[Event]:
    """Return the events of a pause, on the pools of these lists; there is one in ten minutes while it lasts."""
    note = f"Joiner is paused: nothing is launched and no node is removed. `joiner resume {cluster}` ends the pause"
    subjects = [
        Subject(version, kind, str(metadata["name"]), str(metadata.get("uid") or ""))
        for plural, (kind, version) in POOLS.items()
        for metadata in (manifest["metadata"] for manifest in lists.get(plural) or ())
    ]
    return [Event(each, "JoinerPaused", "Survey", note, "Warning", news="JoinerPaused") for each in subjects]


def report_paused_pod(pod: Pod, cluster: str) -> Event:
    """Return the event of a pod for which no node is launched during a pause; there is one in ten minutes."""
    note = f"Joiner is paused: no node is launched for it. `joiner resume {cluster}` ends the pause"
    return Event(
        Subject.pod(pod), "JoinerPaused", "Survey", note, "Warning", news="JoinerPaused", owner=Subject.owner_of(pod)
    )
