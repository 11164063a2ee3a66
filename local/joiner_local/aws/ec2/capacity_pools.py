"""How much each pool of EC2 capacity (instance type x zone x lifecycle) has left; plenty, unless a test says otherwise.

The knob: `POST /_local/capacity {"instanceType": "m5.large", "zone": "us-east-1a", "lifecycle": "spot", "available": 2}`. What is left out
means all; `"available": null` lifts the limit again; `"errorCode"` is why the pool refuses what is beyond it, where it is not the usual
`InsufficientInstanceCapacity` (`UnfulfillableCapacity` for spot). `{"clear": true}` lifts all limits, `{"show": true}` tells those in
force. A limit counts what may still be launched: an instance that ends gives nothing back.

>>> pools = CapacityPools()
>>> pools.limit(Limit("m5.large", "*", "on-demand", 3))
>>> pools.take(Pool("m5.large", "us-east-1a", "on-demand"), 2)
2
>>> pools.take(Pool("m5.large", "us-east-1b", "on-demand"), 2)
1
>>> pools.left(Pool("m5.large", "us-east-1b", "spot")) is None
True
"""

import difflib
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response

ALL: Final = "*"
SPOT: Final = "spot"
ON_DEMAND: Final = "on-demand"
FIELDS: Final = {"instanceType", "zone", "lifecycle", "available", "errorCode"}
LIFECYCLES: Final = frozenset({ALL, SPOT, ON_DEMAND})


@dataclass(frozen=True, slots=True)
class CapacityPool:
    instance_type: str
    zone: str
    lifecycle: str

    def coverings(self) -> Iterator["CapacityPool"]:
        """Itself and the wildcards that cover it."""
        for instance_type, zone, lifecycle in product((self.instance_type, ALL), (self.zone, ALL), (self.lifecycle, ALL)):
            yield CapacityPool(instance_type, zone, lifecycle)


@dataclass(frozen=True, slots=True)
class CapacityLimit:
    """`available` more instances from the pools that it covers together; None is no limit. `error_code` "" is the usual one."""

    instance_type: str = ALL
    zone: str = ALL
    lifecycle: str = ALL
    available: int | None = None
    error_code: str = ""

    @classmethod
    def from_knob(cls, asked: dict[str, Any]) -> "CapacityLimit":
        unknown = asked.keys() - FIELDS
        lifecycle = asked.get("lifecycle", ALL)
        if unknown:
            raise ValueError(f"capacity: {sorted(unknown)} is not known; there are {sorted(FIELDS)}")
        if lifecycle not in LIFECYCLES:
            raise ValueError(f"capacity: lifecycle {lifecycle} is not known; there are {sorted(LIFECYCLES)}")
        instance_type, zone, available = asked.get("instanceType", ALL), asked.get("zone", ALL), asked.get("available")
        _check_known("instanceType", instance_type, INSTANCE_TYPES)
        _check_known("zone", zone, [known.name for zones in RegionsAndZonesBackend.zones.values() for known in zones])
        if available is not None and (isinstance(available, bool) or not isinstance(available, int) or available < 0):
            raise ValueError(f"capacity: available is {available!r}: give a whole number of instances, or null for plenty")
        return cls(instance_type, zone, lifecycle, available, asked.get("errorCode", ""))

    def to_knob(self) -> dict[str, Any]:
        """As it was asked for."""
        return {"instanceType": self.instance_type, "zone": self.zone, "lifecycle": self.lifecycle, "available": self.available}


def _check_known(field: str, said: object, known: Collection[str]) -> None:
    """A limit on what does not exist would limit nothing, and nobody would notice."""
    if said == ALL or (isinstance(said, str) and said in known):
        return
    near = difflib.get_close_matches(str(said), sorted(known), n=3)
    meant = f"did you mean {', '.join(near)}?" if near else "see `joiner catalogue`"
    raise ValueError(f'capacity: {field} is {said!r}: there is none called so; {meant} ("*" stands for all)')


@dataclass(slots=True)
class CapacityPools:
    """The limits in force. Its lock is held over an allocation, so that two fleets cannot take the same instance."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    _limits: dict[CapacityPool, CapacityLimit] = field(default_factory=dict)

    def limit(self, limit: CapacityLimit) -> None:
        key = CapacityPool(limit.instance_type, limit.zone, limit.lifecycle)
        with self.lock:
            if limit.available is None:
                self._limits.pop(key, None)
            else:
                self._limits[key] = limit

    def clear(self) -> None:
        with self.lock:
            self._limits.clear()

    def limits(self) -> list[CapacityLimit]:
        with self.lock:
            return list(self._limits.values())

    def _covering(self, pool: CapacityPool) -> list[tuple[CapacityPool, CapacityLimit, int]]:
        found = ((key, self._limits.get(key)) for key in pool.coverings())
        return [(key, limit, limit.available) for key, limit in found if limit is not None and limit.available is not None]

    def left(self, pool: CapacityPool) -> int | None:
        """None is plenty."""
        with self.lock:
            return min((available for _, _, available in self._covering(pool)), default=None)

    def take(self, pool: CapacityPool, count: int) -> int:
        """Up to `count`; how many it gave."""
        with self.lock:
            left = self.left(pool)
            given = count if left is None else min(count, left)
            self._change(pool, -given)
            return given

    def give_back(self, pool: CapacityPool, count: int) -> None:
        with self.lock:
            self._change(pool, count)

    def _change(self, pool: CapacityPool, by: int) -> None:
        for key, limit, available in self._covering(pool):
            self._limits[key] = replace(limit, available=available + by)

    def refusal(self, pool: CapacityPool) -> str:
        """The error code of a pool that has too little."""
        with self.lock:
            told = [limit.error_code for _, limit, available in self._covering(pool) if limit.error_code and available <= 0]
        return told[0] if told else "UnfulfillableCapacity" if pool.lifecycle == SPOT else "InsufficientInstanceCapacity"


POOLS: Final = CapacityPools()  # one account, one region: one set of pools a process


def set_capacity(asked: dict[str, Any]) -> dict[str, Any]:
    if asked.get("clear"):
        POOLS.clear()
        return {}
    if asked.get("show"):
        return {"limits": [limit.to_knob() for limit in POOLS.limits()]}
    POOLS.limit(CapacityLimit.from_knob(asked))
    return {}


def get_spot_placement_scores(response: Any) -> ActionResult:
    """10 where capacity is plenty, else by how many are left; for each zone, or the best of the region."""
    types = response._get_param("InstanceTypes", [])
    scores = {}
    for zone in response.ec2_backend.describe_availability_zones():
        depths = [POOLS.left(CapacityPool(instance_type, zone.name, SPOT)) for instance_type in types]
        scores[zone.zone_id] = 10 if not depths or None in depths else max(1, min(9, max(depth or 0 for depth in depths)))
    if response._get_param("SingleAvailabilityZone", False):
        return ActionResult(
            {
                "SpotPlacementScores": [
                    {"Region": response.region, "AvailabilityZoneId": zone, "Score": score} for zone, score in scores.items()
                ]
            }
        )
    return ActionResult({"SpotPlacementScores": [{"Region": response.region, "Score": max(scores.values(), default=1)}]})


def describe_capacity_reservations(_response: Any) -> ActionResult:
    """This account has none."""
    return ActionResult({"CapacityReservations": []})


def install() -> None:
    EC2Response.get_spot_placement_scores = get_spot_placement_scores
    EC2Response.describe_capacity_reservations = describe_capacity_reservations
