"""What only some instance types have, and a node class may need: several network cards, EFA, nested virtualization.

Source: EC2 API reference, `InstanceTypeInfo` (`NetworkInfo`, `ProcessorInfo`, `PlacementGroupInfo`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

EFA: Final = "vpc.amazonaws.com/efa"
"""The resource of Elastic Fabric Adapters. The EFA device plug-in registers one for each EFA interface of a node."""


@dataclass(frozen=True, slots=True)
class InstanceFeatures:
    """``cards`` are the numbers of interfaces of the network cards by index; empty for a type with one card.

    ``efa`` is the number of EFA interfaces, one a card from the card ``efa_card`` on.
    """

    cards: tuple[int, ...] = ()
    efa: int = 0
    efa_card: int = 0
    nested_virtualization: bool = False
    cluster_groups: bool = True

    @classmethod
    def from_ec2(cls, info: Mapping[str, Any]) -> "InstanceFeatures":
        """Read a record of DescribeInstanceTypes."""
        network = info.get("NetworkInfo") or {}
        cards = sorted(network.get("NetworkCards") or (), key=lambda card: card.get("NetworkCardIndex", 0))
        with_efa = [
            card.get("NetworkCardIndex", 0)
            for card in cards
            if "efa" in card.get("InterfaceTypes", ("interface", "efa"))
        ]
        strategies = (info.get("PlacementGroupInfo") or {}).get("SupportedStrategies")
        return cls(
            cards=tuple(card["MaximumNetworkInterfaces"] for card in cards) if len(cards) > 1 else (),
            efa=(network.get("EfaInfo") or {}).get("MaximumEfaInterfaces", 0),
            efa_card=min(with_efa, default=0),
            nested_virtualization="nested-virtualization" in (info["ProcessorInfo"].get("SupportedFeatures") or ()),
            cluster_groups=strategies is None or "cluster" in strategies,
        )

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "InstanceFeatures":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(
            cards=tuple(raw.get("cards") or ()),
            efa=raw.get("efa", 0),
            efa_card=raw.get("efaCard", 0),
            nested_virtualization=bool(raw.get("nestedVirtualization", False)),
            cluster_groups=bool(raw.get("clusterGroups", True)),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the features that differ from those of most types.

        >>> InstanceFeatures(efa=1).to_json()
        {'efa': 1}
        """
        shown: dict[str, tuple[Any, Any]] = {
            "cards": (list(self.cards), []),
            "efa": (self.efa, 0),
            "efaCard": (self.efa_card, 0),
            "nestedVirtualization": (self.nested_virtualization, False),
            "clusterGroups": (self.cluster_groups, True),
        }
        return {name: value for name, (value, usual) in shown.items() if value != usual}
