"""A launch: the exact CreateFleet request for some claims, and the facts that its answer does not contain.

A launch is stored before it is sent. If the answer is lost, the same bytes are sent again: the same ``ClientToken``
returns the same instances.
"""

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from joiner.pools import LaunchTemplateVersion


@dataclass(frozen=True, slots=True)
class LaunchTemplate:
    """A launch template that must exist before the request; ``data`` is RequestLaunchTemplateData."""

    name: str
    data: Mapping[str, Any]
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Launch:
    """One request for the nodes of ``claims`` (sorted). Any claim may get any of the instances.

    The answer of EC2 does not contain ``images`` (by instance type), ``prices`` ($/h, by ``type/zone``) and
    ``zone_ids``.
    """

    id: str
    token: str
    claims: tuple[str, ...]
    _: KW_ONLY
    claim_kind: str
    pool: str
    capacity_type: str
    request: Mapping[str, Any]
    templates: tuple[LaunchTemplate, ...]
    images: Mapping[str, str]
    prices: Mapping[str, float]
    zone_ids: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of all its nodes that the launch determines: the capacity reservation, the tenancy, the placement group,
    and its partition."""
    user_template: LaunchTemplateVersion | None = None
    """The launch template that the class names, without its user data."""

    def request_json(self) -> str:
        """Return the bytes to store and to send."""
        return json.dumps(self.request, sort_keys=True, separators=(",", ":"))

    @property
    def instance_tags(self) -> frozenset[str]:
        """Return the keys of the tags that the request gives to its instances."""
        specifications = self.request["TagSpecifications"]
        return frozenset(
            tag["Key"] for one in specifications if one["ResourceType"] == "instance" for tag in one["Tags"]
        )

    def image_of(self, instance_type: str) -> str:
        """Return the image id for an instance type; empty for an unknown type."""
        return self.images.get(instance_type, "")

    def price_of(self, instance_type: str, zone: str) -> float | None:
        """Return the planned price in $/h; None for an offering that the launch does not have."""
        return self.prices.get(f"{instance_type}/{zone}")

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {
            "id": self.id,
            "token": self.token,
            "claims": list(self.claims),
            "claimKind": self.claim_kind,
            "pool": self.pool,
            "capacityType": self.capacity_type,
            "request": self.request,
            "templates": [{"name": one.name, "data": one.data, "tags": dict(one.tags)} for one in self.templates],
            "images": dict(self.images),
            "prices": dict(self.prices),
            "zoneIds": dict(self.zone_ids),
            "labels": dict(self.labels),
            "userTemplate": self.user_template.to_json() if self.user_template else None,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Launch":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(
            id=raw["id"],
            token=raw["token"],
            claims=tuple(raw["claims"]),
            claim_kind=raw["claimKind"],
            pool=raw["pool"],
            capacity_type=raw["capacityType"],
            request=raw["request"],
            templates=tuple(LaunchTemplate(one["name"], one["data"], one["tags"]) for one in raw["templates"]),
            images=raw["images"],
            prices=raw["prices"],
            zone_ids=raw.get("zoneIds", {}),
            labels=raw.get("labels", {}),
            user_template=LaunchTemplateVersion.from_json(given) if (given := raw.get("userTemplate")) else None,
        )
