"""A claim once its instance runs: the labels that the instance decided, what its node will have, and what it costs."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from joiner import names
from joiner.cluster import Resources
from joiner.lifecycle.deadlines import REGISTRATION
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
    """The claim as it should look, `labels` being those of the instance's type.

    Pods may ask for a label only by what the claim's requirements allow, so a type's labels never contradict them.
    """
    region = names.region_of(instance.zone)
    place = ({names.REGION: region} if region else {}) | ({names.ZONE_ID: zone_id} if zone_id else {})
    priced = claim
    if instance.price_per_hour is not None:
        priced = replace(claim, annotations={**claim.annotations, names.PRICE: f"{instance.price_per_hour:g}"})
    return priced.as_launched(
        instance,
        at=at,
        labels={names.TENANCY: "default", **labels, **place},
        capacity=capacity,
        allocatable=allocatable,
        joins_by=at + REGISTRATION,
    )
