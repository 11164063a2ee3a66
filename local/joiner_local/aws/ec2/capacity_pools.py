"""The remaining capacity of each EC2 pool (instance type, zone, lifecycle): unlimited, unless a limit is set.

Knob: `POST /_local/capacity {"instanceType": "m5.large", "zone": "us-east-1a", "lifecycle": "spot", "available": 2}`. A
field that is left out means all; `"available": null` removes the limit. `"errorCode"` is the error beyond the limit, by
default `InsufficientInstanceCapacity` (`UnfulfillableCapacity` for spot). `{"clear": true}` removes all limits,
`{"show": true}` lists them. A limit counts launches: an instance that ends returns nothing to its pool.

>>> pools = CapacityPools()
>>> pools.limit(CapacityLimit("m5.large", "*", "on-demand", 3))
>>> pools.take(CapacityPool("m5.large", "us-east-1a", "on-demand"), 2)
2
>>> pools.take(CapacityPool("m5.large", "us-east-1b", "on-demand"), 2)
1
>>> pools.left(CapacityPool("m5.large", "us-east-1b", "spot")) is None
True
"""

import difflib
import functools
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response

from joiner_local.aws.attribute_patches import replace_attribute, wrap_attribute
from joiner_local.aws.local_aws import LocalAws
from joiner_local.knob_requests import check_fields, read_text

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
        """Return this pool and the wildcards that cover it."""
        for instance_type, zone, lifecycle in product(
            (self.instance_type, ALL), (self.zone, ALL), (self.lifecycle, ALL)
        ):
            yield CapacityPool(instance_type, zone, lifecycle)


@dataclass(frozen=True, slots=True)
class CapacityLimit:
    """`available` more instances from all pools that the limit covers; None is no limit. An empty `error_code` is the
    default one.
    """

    instance_type: str = ALL
    zone: str = ALL
    lifecycle: str = ALL
    available: int | None = None
    error_code: str = ""

    @classmethod
    def from_knob(cls, asked: dict[str, Any]) -> "CapacityLimit":
        check_fields(asked, FIELDS, "capacity")
        lifecycle = read_text(asked, "lifecycle", ALL)
        if lifecycle not in LIFECYCLES:
            known = ", ".join(sorted(LIFECYCLES))
            raise ValueError(f"capacity: lifecycle {lifecycle} is not known; there are {known}")
        instance_type, zone, available = asked.get("instanceType", ALL), asked.get("zone", ALL), asked.get("available")
        _check_known("instanceType", instance_type, INSTANCE_TYPES)
        _check_known("zone", zone, [known.name for zones in RegionsAndZonesBackend.zones.values() for known in zones])
        if available is not None and (isinstance(available, bool) or not isinstance(available, int) or available < 0):
            raise ValueError(
                f"capacity: available is {available!r}: give a whole number of instances, or null for plenty"
            )
        return cls(instance_type, zone, lifecycle, available, read_text(asked, "errorCode", ""))

    def to_knob(self) -> dict[str, Any]:
        """Return the limit as the knob takes it."""
        return {
            "instanceType": self.instance_type,
            "zone": self.zone,
            "lifecycle": self.lifecycle,
            "available": self.available,
        }


def _check_known(field: str, text: object, known: Collection[str]) -> None:
    """Refuse an unknown value: such a limit would have no effect."""
    if text == ALL or (isinstance(text, str) and text in known):
        return
    near = difflib.get_close_matches(str(text), sorted(known), n=3)
    meant = f"did you mean {', '.join(near)}?" if near else "see `joiner catalogue`"
    raise ValueError(f'capacity: {field} is {text!r}: there is none called so; {meant} ("*" stands for all)')


@dataclass(slots=True)
class CapacityPools:
    """The limits in force. The lock is held during an allocation, so that two fleets cannot take the same capacity."""

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
        return [
            (key, limit, limit.available) for key, limit in found if limit is not None and limit.available is not None
        ]

    def left(self, pool: CapacityPool) -> int | None:
        """Return how many instances the pool can launch; None is unlimited."""
        with self.lock:
            return min((available for _, _, available in self._covering(pool)), default=None)

    def take(self, pool: CapacityPool, count: int) -> int:
        """Take up to `count`. Returns how many were taken."""
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
        """Return the error code of a pool without enough capacity."""
        with self.lock:
            answer = [
                limit.error_code for _, limit, available in self._covering(pool) if limit.error_code and available <= 0
            ]
        return (
            answer[0]
            if answer
            else "UnfulfillableCapacity"
            if pool.lifecycle == SPOT
            else "InsufficientInstanceCapacity"
        )


POOLS: Final = CapacityPools()  # one account, one region: one set of pools a process


def set_capacity(asked: dict[str, Any]) -> dict[str, Any]:
    """Limit the capacity of pools, or end all limits (``clear``); return the limits there are then."""
    if asked.get("clear"):
        POOLS.clear()
    elif not asked.get("show"):
        POOLS.limit(CapacityLimit.from_knob(asked))
    return {"limits": [limit.to_knob() for limit in POOLS.limits()]}


BEST_SCORE, LOW_SCORE, LEAST_TYPES, SCORED_PLACES = 10, 1, 3, 10
"""EC2 scores the ten best places, from 1 to 10; fewer than three types always have a low score."""


def get_spot_placement_scores(response: Any) -> ActionResult:
    """Return 10 for unlimited capacity, else a score by the remaining capacity; for each zone, or the best of the
    region.

    Not modelled: the limits of EC2 on target capacities and on new requests in a day. Source: EC2 user guide, "Spot
    placement score".
    """
    types = list(response._get_param("InstanceTypes", []))
    _check_scored(response, types)
    named = response._get_param("RegionNames", [])
    if named and response.region not in named:
        return ActionResult({"SpotPlacementScores": []})
    wanted = response._get_int_param("TargetCapacity")
    scores = {
        zone.zone_id: _score(types, zone.name, wanted) for zone in response.ec2_backend.describe_availability_zones()
    }
    if response._get_bool_param("SingleAvailabilityZone", False):
        best = sorted(scores.items(), key=lambda each: (-each[1], each[0]))[:SCORED_PLACES]
        found = [{"Region": response.region, "AvailabilityZoneId": zone, "Score": score} for zone, score in best]
    else:
        found = [{"Region": response.region, "Score": max(scores.values(), default=LOW_SCORE)}]
    return ActionResult({"SpotPlacementScores": found})


def _score(types: Sequence[str], zone: str, wanted: int) -> int:
    if len(set(types)) < LEAST_TYPES:
        return LOW_SCORE
    depths = [POOLS.left(CapacityPool(instance_type, zone, SPOT)) for instance_type in types]
    there = sum(depth for depth in depths if depth is not None)
    if None in depths or there >= wanted:
        return BEST_SCORE
    return max(LOW_SCORE, BEST_SCORE * there // wanted)


def _check_scored(response: Any, types: Sequence[str]) -> None:
    wanted = response._get_int_param("TargetCapacity")
    if wanted is None:
        raise EC2ClientError("MissingParameter", "The request must contain the parameter TargetCapacity")
    if wanted < 1:
        raise EC2ClientError("InvalidParameterValue", "TargetCapacity must be at least 1.")
    if bool(types) == bool(response._get_param("InstanceRequirementsWithMetadata", {})):
        raise EC2ClientError(
            "InvalidParameterCombination", "Specify either InstanceTypes or InstanceRequirementsWithMetadata."
        )
    if not types:
        raise EC2ClientError("UnsupportedOperation", "the local EC2 scores named instance types only")
    if (size := response._get_int_param("MaxResults")) is not None and not 10 <= size <= 1000:
        raise EC2ClientError("InvalidParameterValue", "MaxResults must be between 10 and 1000.")


def _checked_zones(original: Callable[[Any], ActionResult]) -> Callable[[Any], ActionResult]:
    """Return the operation with EC2's check of the names: moto answers without the unknown ones."""

    @functools.wraps(original)
    def describe_availability_zones(response: Any) -> ActionResult:
        known = {zone.name for zone in response.ec2_backend.describe_availability_zones()}
        unknown = sorted(set(response._get_param("ZoneNames", [])) - known)
        if unknown:
            raise EC2ClientError("InvalidParameterValue", f"Invalid availability zone: [{', '.join(unknown)}]")
        return original(response)

    return describe_availability_zones


def install(aws: LocalAws) -> None:
    zones = EC2Response.describe_availability_zones
    wrap_attribute(EC2Response, "describe_availability_zones", _checked_zones(zones), zones)
    replace_attribute(EC2Response, "get_spot_placement_scores", get_spot_placement_scores)
    aws.add_knobs({"capacity": set_capacity})
