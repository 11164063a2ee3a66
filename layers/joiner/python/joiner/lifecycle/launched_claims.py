"""The claim of a running instance: labels, resources and price that the instance determined."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from joiner import names
from joiner.cluster import Resources
from joiner.lifecycle.node_deadlines import REGISTRATION
from joiner.pools import LaunchedInstance, NodeClaim


def launched_claim(
    claim: NodeClaim,
    instance: LaunchedInstance,
    *,
    labels: Mapping[str, str],
    capacity: Resources | None,
    allocatable: Resources | None,
    at: datetime,
    zone_id: str = "",
) -> NodeClaim:
    """Return the claim with its launch result; `labels` are those of the instance's type.

    Pods can only request labels that the claim's requirements allow, so a type's labels never contradict them.
    """
    region = names.region_of(instance.zone)
    place = ({names.REGION: region} if region else {}) | ({names.ZONE_ID: zone_id} if zone_id else {})
    priced = claim
    if instance.price_per_hour is not None:
        priced = replace(claim, annotations={**claim.annotations, names.PRICE: f"{instance.price_per_hour:g}"})
    return priced.as_launched(
        instance,
        at=at,
        labels={names.TENANCY: names.DEFAULT_TENANCY, **labels, **place},
        capacity=capacity,
        allocatable=allocatable,
        joins_by=at + REGISTRATION,
    )
