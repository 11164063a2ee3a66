"""The outcome of a CreateFleet answer: launched instances, capacity shortages, and failures that have a remedy.

HTTP 200 with instances *and* errors is normal. After an error about capacity or a quota, the offering is avoided for
some time. A throttling error is no information about capacity, even in an answer with status 200: the same request is
sent again later. Every other error is a mistake with a remedy. Sources: EC2 API reference, CreateFleet and "Error
codes"; Karpenter, `pkg/errors`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from joiner import names
from joiner.catalogue.unavailable_offerings import zone_of_shortage
from joiner.launching.ec2_error_codes import (
    ALL_SPOT_ERRORS,
    CAPACITY_ERRORS,
    PLACEMENT_ERRORS,
    SHORTAGES,
    TENANCY_ERRORS,
    THROTTLING_ERRORS,
    TRANSIENT_ERRORS,
    Extent,
    find_error_remedy,
    without_encoded_part,
)
from joiner.launching.launch import Launch
from joiner.launching.vcpu_quotas import read_quota_value

EVERY = "*"

LONGEST_MESSAGE: Final = 600
"""Characters of EC2's message that an outcome keeps. The remedy follows it in an event, whose text is cut at 1,024. An
outcome is part of an item of the ledger, which DynamoDB refuses above 400 KB.
"""


@dataclass(frozen=True, slots=True, order=True)
class PairedInstance:
    """An instance and its claim."""

    instance_id: str
    claim: str
    instance_type: str
    zone: str
    capacity_type: str
    image_id: str = ""
    price_per_hour: float | None = None


@dataclass(frozen=True, slots=True, order=True)
class CapacityShortage:
    """An offering to avoid for some time; ``*`` as type or zone means all of them.

    ``quota`` is the value of the quota that EC2's message names; 0 if it names none.
    """

    capacity_type: str
    instance_type: str
    zone: str
    code: str
    quota: int = 0


@dataclass(frozen=True, slots=True, order=True)
class LaunchFailure:
    """The reason why nothing can be launched, and the remedy. `message` is the beginning of EC2's, without its encoded
    part.
    """

    code: str
    reason: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """The result of a launch.

    ``unmet`` are the claims without an instance; ``short`` and ``failed`` give the reasons. ``throttled``: EC2 refused
    the request because of its rate, and nothing is known about capacity.
    """

    launched: tuple[PairedInstance, ...] = ()
    short: tuple[CapacityShortage, ...] = ()
    failed: tuple[LaunchFailure, ...] = ()
    unmet: tuple[str, ...] = ()
    throttled: bool = False

    @property
    def codes(self) -> tuple[str, ...]:
        """Return the distinct error codes of EC2, sorted."""
        found = {short.code for short in self.short} | {failure.code for failure in self.failed}
        return tuple(sorted(found | ({"RequestLimitExceeded"} if self.throttled else set())))

    @property
    def again(self) -> bool:
        """Return whether another plan may help the pods of unmet claims.

        It may use another offering, or the same offering later.
        """
        passing = any(failure.code in TRANSIENT_ERRORS for failure in self.failed)
        return bool(self.unmet) and (bool(self.short) or self.throttled or passing)

    @property
    def later(self) -> bool:
        """Return whether EC2 throttled the request or had an internal error. An immediate retry makes this worse."""
        return self.throttled or any(failure.code in TRANSIENT_ERRORS for failure in self.failed)

    def as_paired(self, claims: Mapping[str, str]) -> "LaunchOutcome":
        """Return this outcome with the actual claim of each instance (``claims``: instance id -> claim).

        If several instances have the same claim, the first one keeps it.
        """
        stands: dict[str, PairedInstance] = {}
        for one in self.launched:
            claim = claims.get(one.instance_id, one.claim)
            stands.setdefault(claim, replace(one, claim=claim))
        unmet = {*self.unmet, *(one.claim for one in self.launched)} - stands.keys()
        return replace(self, launched=tuple(stands[claim] for claim in sorted(stands)), unmet=tuple(sorted(unmet)))

    def without_messages(self) -> "LaunchOutcome":
        """Return this outcome without EC2's messages: its codes, reasons and remedies say what is to be done."""
        return replace(self, failed=tuple(replace(each, message="") for each in self.failed))

    def to_json(self) -> str:
        """Return the value as JSON text."""
        return json.dumps(
            {
                "launched": [
                    {
                        "instance": one.instance_id,
                        "claim": one.claim,
                        "instanceType": one.instance_type,
                        "zone": one.zone,
                        "capacityType": one.capacity_type,
                        "image": one.image_id,
                        "pricePerHour": one.price_per_hour,
                    }
                    for one in self.launched
                ],
                "short": [[one.capacity_type, one.instance_type, one.zone, one.code, one.quota] for one in self.short],
                "failed": [[one.code, one.reason, one.message, one.remedy] for one in self.failed],
                "unmet": list(self.unmet),
                "throttled": self.throttled,
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> "LaunchOutcome":
        """Read the JSON text that `to_json` returns."""
        raw = json.loads(text)
        return cls(
            launched=tuple(
                PairedInstance(
                    instance_id=one["instance"],
                    claim=one["claim"],
                    instance_type=one["instanceType"],
                    zone=one["zone"],
                    capacity_type=one["capacityType"],
                    image_id=one["image"],
                    price_per_hour=one["pricePerHour"],
                )
                for one in raw["launched"]
            ),
            short=tuple(CapacityShortage(*one) for one in raw["short"]),
            failed=tuple(LaunchFailure(*one) for one in raw["failed"]),
            unmet=tuple(raw["unmet"]),
            throttled=raw["throttled"],
        )


def pair_claims(
    claims: Iterable[str], instances: Iterable[str], standing: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return claim -> instance id, paired in ascending order so that the result is repeatable.

    Pairs in ``standing`` (instance id -> claim) do not change.

    >>> pair_claims(["b", "a"], ["i-2"])
    {'a': 'i-2'}
    >>> pair_claims(["a", "b"], ["i-1", "i-2"], {"i-2": "a"})
    {'a': 'i-2', 'b': 'i-1'}
    """
    stands = {claim: instance for instance, claim in (standing or {}).items()}
    free = (claim for claim in sorted(claims) if claim not in stands)
    return stands | dict(zip(free, sorted(set(instances) - set(standing or ())), strict=False))


InstancePlace = tuple[str, str, str]
"""Type, zone and capacity type of an instance."""


def list_instance_places(launch: Launch, answer: Mapping[str, Any]) -> dict[str, InstancePlace]:
    """Return the instances of a CreateFleet answer by id."""
    groups = answer.get("Instances") or ()
    return {instance: _place(launch, group) for group in groups for instance in group["InstanceIds"]}


def read_fleet_answer(launch: Launch, answer: Mapping[str, Any]) -> LaunchOutcome:
    """Return the outcome of the CreateFleet answer to ``launch``."""
    return read_instances(launch, list_instance_places(launch, answer), answer.get("Errors") or ())


def read_instances(
    launch: Launch,
    instances: Mapping[str, InstancePlace],
    errors: Iterable[Mapping[str, Any]] = (),
    standing: Mapping[str, str] | None = None,
) -> LaunchOutcome:
    """Return the outcome for known instances: from the answer, from EC2 by their launch tag, or both.

    EC2 gives an error for each of up to 300 offerings, each with a message of its own: the outcome has one failure for
    each code and reason. ``standing`` is the same as in ``pair_claims``.
    """
    paired = pair_claims(launch.claims, instances, standing)
    launched = []
    for claim, instance in paired.items():
        instance_type, zone, lifecycle = instances[instance]
        capacity_type = _capacity_type(launch, lifecycle)
        price = launch.price_of(instance_type, zone)
        launched.append(
            PairedInstance(instance, claim, instance_type, zone, capacity_type, launch.image_of(instance_type), price)
        )
    unmet = tuple(claim for claim in launch.claims if claim not in paired)
    short: set[CapacityShortage] = set()
    failed: dict[tuple[str, str], LaunchFailure] = {}
    throttled = False
    for error in errors:
        code = str(error.get("ErrorCode", ""))
        if code in THROTTLING_ERRORS:
            throttled = True
        elif code in CAPACITY_ERRORS:
            short |= _short(launch, error, code)
        else:
            failure = _failure(code, str(error.get("ErrorMessage", "")))
            failed[code, failure.reason] = min(failure, failed.get((code, failure.reason), failure))
    return LaunchOutcome(
        tuple(sorted(launched, key=lambda one: one.claim)),
        tuple(sorted(short)),
        tuple(sorted(failed.values())),
        unmet,
        throttled,
    )


def read_fleet_refusal(launch: Launch, code: str, message: str) -> LaunchOutcome:
    """Return the outcome of a request that EC2 refused completely."""
    if code in THROTTLING_ERRORS:
        return LaunchOutcome(unmet=launch.claims, throttled=True)
    if code in CAPACITY_ERRORS:
        return LaunchOutcome(short=_all_short(launch, code, read_quota_value(message)), unmet=launch.claims)
    return LaunchOutcome(failed=(_failure(code, message),), unmet=launch.claims)


def list_cut_messages(errors: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return, by code, the first message of which an outcome keeps only a part.

    >>> text = "You are not authorized. Encoded authorization failure message: "
    >>> list_cut_messages([{"ErrorCode": "UnauthorizedOperation", "ErrorMessage": text + each} for each in ("x", "y")])
    {'UnauthorizedOperation': 'You are not authorized. Encoded authorization failure message: x'}
    """
    found: dict[str, str] = {}
    for error in errors:
        code, message = str(error.get("ErrorCode", "")), str(error.get("ErrorMessage", ""))
        if code not in CAPACITY_ERRORS | THROTTLING_ERRORS and message != _failure(code, message).message:
            found.setdefault(code, message)
    return found


def _failure(code: str, message: str) -> LaunchFailure:
    reason, remedy = find_error_remedy(code, message)
    return LaunchFailure(code, reason, without_encoded_part(message)[:LONGEST_MESSAGE], remedy)


def _all_short(launch: Launch, code: str, quota: int) -> tuple[CapacityShortage, ...]:
    """Return the shortages of an error that names no offering: it concerns every offering of the launch."""
    places = (offer.partition("/") for offer in launch.prices)
    found = {_shortage(launch.capacity_type, instance_type, zone, code, quota) for instance_type, _, zone in places}
    return tuple(sorted(found))


def _short(launch: Launch, error: Mapping[str, Any], code: str) -> set[CapacityShortage]:
    instance_type, zone, capacity_type = _place(launch, error)
    quota = read_quota_value(str(error.get("ErrorMessage", "")))
    if not instance_type or not zone:
        return set(_all_short(launch, code, quota))
    return {_shortage(capacity_type, instance_type, zone, code, quota)}


def _shortage(capacity_type: str, instance_type: str, zone: str, code: str, quota: int) -> CapacityShortage:
    extent = SHORTAGES[code]
    return CapacityShortage(
        names.SPOT if code in ALL_SPOT_ERRORS else capacity_type,
        EVERY if extent in (Extent.ZONE, Extent.CAPACITY_TYPE) else instance_type,
        EVERY if extent in (Extent.TYPE, Extent.CAPACITY_TYPE) else zone,
        code,
        quota,
    )


def _place(launch: Launch, response: Mapping[str, Any]) -> InstancePlace:
    """Return type, zone and capacity type of one entry of the answer. If the entry has no zone, its subnet gives it."""
    override = (response.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    zone = (
        override.get("AvailabilityZone")
        or response.get("AvailabilityZone")
        or _zones(launch).get(override.get("SubnetId", ""), "")
    )
    instance_type = response.get("InstanceType") or override.get("InstanceType") or ""
    return instance_type, zone, _capacity_type(launch, response.get("Lifecycle"))


def _capacity_type(launch: Launch, lifecycle: str | None) -> str:
    """Return the capacity type. EC2 reports the lifecycle of instances in a reservation as on-demand, or none."""
    return launch.capacity_type if launch.capacity_type == names.RESERVED else lifecycle or launch.capacity_type


def _zones(launch: Launch) -> dict[str, str]:
    """Return subnet -> zone, as in the request."""
    return {
        override["SubnetId"]: override["AvailabilityZone"]
        for config in launch.request["LaunchTemplateConfigs"]
        for override in config["Overrides"]
    }


def list_short_offerings(short: CapacityShortage, launch: Launch) -> set[tuple[str, str, str]]:
    """Return the offerings to avoid after a shortage: capacity type, instance type and zone of each.

    If every type or zone is short, these are the shortage itself and each offering of it that the launch requested. A
    shortage in a placement group is one of this group, and a shortage of dedicated hardware one of this tenancy. A
    capacity reservation that is full or has ended is short itself: others of the same type and zone are not.
    """
    reservation = launch.labels.get(names.RESERVATION, "") if SHORTAGES.get(short.code) == Extent.OFFERING else ""
    group = launch.labels.get(names.PLACEMENT_GROUP, "") if short.code in PLACEMENT_ERRORS else ""
    of_hardware = short.code in TENANCY_ERRORS
    tenancy = launch.labels.get(names.TENANCY, names.DEFAULT_TENANCY) if of_hardware else names.DEFAULT_TENANCY
    part = partial(zone_of_shortage, placement_group=group, tenancy=tenancy, reservation=reservation)
    offerings = {(short.capacity_type, short.instance_type, part(short.zone))}
    for asked in launch.prices:
        instance_type, _, zone = asked.partition("/")
        if short.instance_type in (EVERY, instance_type) and short.zone in (EVERY, zone):
            offerings.add((short.capacity_type, instance_type, part(zone)))
    return offerings
