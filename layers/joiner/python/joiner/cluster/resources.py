"""Amounts of resources: requests of pods, allocatable of nodes, limits of pools.

cpu is counted in millicores. Every other resource is counted in its base unit (bytes, devices, pods). All amounts are
whole numbers, so that sums are exact.

>>> node = Resources.from_kube({"cpu": "2", "memory": "4Gi", "pods": "29"})
>>> pod = Resources.of(cpu="1500m", memory="1Gi", pods=1)
>>> pod.fits(node), (pod + pod).fits(node)
(True, False)
>>> (node - pod).to_kube()
{'cpu': '500m', 'memory': '3Gi', 'pods': '28'}
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from joiner.cluster import quantities
from joiner.cluster.invalid_field import InvalidField

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
KUBELET_RESOURCES = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS})
"""Resources that every kubelet reports. A device plugin adds the others after the node has started."""

MILLICORES = 1000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Resources(Mapping[str, int]):
    """An immutable mapping from resource name to amount; a missing name counts as zero.

    Explicit zeros are kept: a limit of zero is a limit, and a missing limit is none.
    """

    amounts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, **amounts: str | int) -> "Resources":
        """Read keywords, with underscores for dashes (``ephemeral_storage="1Gi"``)."""
        return cls.from_kube({name.replace("_", "-"): amount for name, amount in amounts.items()})

    @classmethod
    def limits_from_kube(cls, raw: Mapping[str, Any] | None) -> "Resources":
        """Read a ResourceList of limits. They are rounded down, because the amounts that they limit are whole numbers.

        >>> Resources.limits_from_kube({"nodes": "1.5", "cpu": "1.5", "nvidia.com/gpu": "900m"}).to_kube()
        {'nodes': '1', 'cpu': '1500m', 'nvidia.com/gpu': '0'}
        """
        return cls._read(raw, down=True)

    @classmethod
    def from_kube(cls, raw: Mapping[str, Any] | None) -> "Resources":
        """Read a ResourceList. InvalidField names the resource whose quantity is not valid."""
        return cls._read(raw, down=False)

    @classmethod
    def _read(cls, raw: Mapping[str, Any] | None, *, down: bool) -> "Resources":
        if raw is not None and not isinstance(raw, Mapping):
            raise InvalidField("", raw, "write a mapping from resource to quantity")
        amounts = {}
        for name, quantity in (raw or {}).items():
            try:
                amounts[str(name)] = quantities.parse_amount(
                    quantity, scale=MILLICORES if name == CPU else 1, down=down
                )
            except InvalidField as invalid:
                raise invalid.within(str(name)) from invalid
        return cls(amounts)

    def to_kube(self) -> dict[str, str]:
        """Return the amounts as quantities of Kubernetes, by resource."""
        return {name: self._text(name, amount) for name, amount in self.amounts.items()}

    @staticmethod
    def _text(name: str, amount: int) -> str:
        if name == CPU:
            return quantities.format_cpu(amount)
        in_bytes = name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-")
        return quantities.format_bytes(amount) if in_bytes else str(amount)

    def __getitem__(self, name: str) -> int:
        return self.amounts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.amounts)

    def __len__(self) -> int:
        return len(self.amounts)

    def __repr__(self) -> str:
        return f"Resources({self.to_kube()})"

    def __hash__(self) -> int:
        return hash(frozenset(self.amounts.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and dict(self.amounts) == dict(other.amounts)

    def __add__(self, other: "Resources") -> "Resources":
        total = dict(self.amounts)
        for name, amount in other.amounts.items():
            total[name] = total.get(name, 0) + amount
        return Resources(total)

    def __sub__(self, other: "Resources") -> "Resources":
        """Return the difference; an amount is negative where ``other`` is larger."""
        left = dict(self.amounts)
        for name, amount in other.amounts.items():
            left[name] = left.get(name, 0) - amount
        return Resources(left)

    def __mul__(self, times: int) -> "Resources":
        return Resources({name: amount * times for name, amount in self.amounts.items()})

    def __or__(self, other: "Resources") -> "Resources":
        """Return the larger amount of both for each resource.

        >>> (Resources.of(cpu=1, memory=5) | Resources.of(cpu=2)).to_kube()
        {'cpu': '2', 'memory': '5'}
        """
        most = dict(self.amounts)
        for name, amount in other.amounts.items():
            most[name] = max(most[name], amount) if name in most else amount
        return Resources(most)

    def fits(self, free: "Resources") -> bool:
        """Return whether these amounts fit into ``free``. Zero fits even if ``free`` does not name the resource."""
        return all(amount <= free.amounts.get(name, 0) for name, amount in self.amounts.items() if amount > 0)

    def lacking(self, free: "Resources") -> "Resources":
        """Return the amounts that ``free`` lacks for this; empty if it fits.

        >>> Resources.of(cpu=3, pods=1).lacking(Resources.of(cpu=2, pods=5)).to_kube()
        {'cpu': '1'}
        """
        return Resources(
            {
                name: amount - max(free.amounts.get(name, 0), 0)
                for name, amount in self.amounts.items()
                if amount > 0 and amount > free.amounts.get(name, 0)
            }
        )

    def without_zeros(self) -> "Resources":
        """Return the resources whose amount is not zero."""
        return Resources({name: amount for name, amount in self.amounts.items() if amount})


def sum_resources(parts: Iterable[Resources]) -> Resources:
    """Return the sum of the parts; empty if there are no parts.

    >>> sum_resources([Resources.of(cpu=1), Resources.of(cpu="500m", pods=1)]).to_kube()
    {'cpu': '1500m', 'pods': '1'}
    """
    amounts: dict[str, int] = {}
    for part in parts:
        for name, amount in part.amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
    return Resources(amounts)
