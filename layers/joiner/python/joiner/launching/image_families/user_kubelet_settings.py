"""Settings of the kubelet in a class's user data: those that the node's own settings replace, and those that plans do
not know.

A node has the kubelet settings of its class (or of its Provisioner), and in an IPv6 cluster some more; they replace
the same settings of the user data. Plans read no user data.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from joiner.pools import NodeClass
from joiner.pools.node_kubelet import choose_kubelet

PLANNED: Final = ("evictionHard", "kubeReserved", "maxPods", "podsPerCore", "systemReserved")
"""Settings that decide how many pods fit on a node."""


@dataclass(frozen=True, slots=True)
class UserSetting:
    """A setting of the kubelet in user data. ``field`` is its name in a KubeletConfiguration, ``written`` the path in
    the user data. ``merged``: the family keeps the keys of a map that the node's own settings do not have."""

    field: str
    written: str
    value: Any
    merged: bool = False


def find_setting_problems(node_class: NodeClass, setting: UserSetting) -> Iterator[tuple[str, str]]:
    """Yield reason and message if the setting is replaced, or is used and not known to plans.

    >>> mine = UserSetting("maxPods", "settings.kubernetes.max-pods", 7)
    >>> [*find_setting_problems(NodeClass("default", "EC2NodeClass", ip_family="ipv6"), mine)]
    [('WithoutEffect', 'settings.kubernetes.max-pods is replaced by the value of nodes in an IPv6 cluster: set \
kubelet.maxPods in the class instead')]
    """
    field, value = setting.field, setting.value
    own = choose_kubelet(node_class, None).config.get(field)
    if own is None:
        if field in PLANNED:
            yield describe_unplanned(node_class, field, setting.written)
    elif setting.merged and isinstance(own, Mapping) and isinstance(value, Mapping):
        if both := sorted(own.keys() & value.keys()):
            yield _describe_replaced(node_class, setting, both)
        for key in sorted(value.keys() - own.keys()) if field in PLANNED else ():
            yield describe_unplanned(node_class, field, f"{setting.written}[{key}]")
    else:
        yield _describe_replaced(node_class, setting, ())


def describe_unplanned(node_class: NodeClass, field: str, written: str) -> tuple[str, str]:
    """Return reason and message of a setting in user data that nodes have and that plans do not know."""
    if node_class.kind == "EC2NodeClass":
        return "NotPlanned", f"plans do not know {written}: set kubelet.{field} in the class instead"
    message = (
        f"plans do not know {written}, and kubeletConfiguration.{field} of a Provisioner replaces it: set it there "
        "instead"
    )
    return "NotPlanned", message


def _describe_replaced(node_class: NodeClass, setting: UserSetting, keys: Collection[str]) -> tuple[str, str]:
    field = setting.field
    written = f"{setting.written}[{', '.join(keys)}]" if keys else setting.written
    declared = node_class.kubelet.config.get(field) if node_class.kubelet else None
    if declared is not None and (not isinstance(declared, Mapping) or set(keys) <= declared.keys()):
        return "WithoutEffect", f"{written} is replaced by kubelet.{field} of the class: remove it"
    where = f"kubelet.{field} in the class"
    if node_class.kind != "EC2NodeClass":
        where = f"kubeletConfiguration.{field} in the Provisioner"
    message = f"{written} is replaced by the value of nodes in an IPv6 cluster: set {where} instead"
    return "WithoutEffect", message
