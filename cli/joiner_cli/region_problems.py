"""Finds input of another region than the catalogue: types, zones and prices of the plan are not those of the cluster.

>>> [problem] = find_region_problems({"us-east-1"}, settings="eu-west-1")
>>> print(problem)
settings: region is eu-west-1: the catalogue has us-east-1, so that types, zones and prices of this plan are those of \
another region: give the catalogue of eu-west-1 with --catalogue FILE
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from joiner import names
from joiner.pools import InvalidManifest

Manifest = Mapping[str, Any]


def find_region_problems(
    regions: Collection[str], *, settings: str = "", nodes: Sequence[Manifest] = (), classes: Sequence[Manifest] = ()
) -> Iterator[InvalidManifest]:
    """Yield a warning for the settings, for the nodes, and for each class with resolved subnets, if their region is
    none of the catalogue's.

    ``settings`` is the region of the settings, if they are given; ``nodes`` and ``classes`` are manifests.
    """
    if not regions:
        return
    if settings and settings not in regions:
        yield InvalidManifest("settings", "region", settings, _describe(settings, regions), "warning")
    label = names.ZONE
    seen: set[str] = set()
    for node in nodes:
        zone = (node["metadata"].get("labels") or {}).get(label, "")
        region = names.region_of(zone)
        if region and region not in regions and region not in seen:
            seen.add(region)
            where = f"Node/{node['metadata']['name']}"
            yield InvalidManifest(where, f"metadata.labels[{label}]", zone, _describe(region, regions), "warning")
    for one in classes:
        zones = [subnet.get("zone", "") for subnet in (one.get("status") or {}).get("subnets") or ()]
        foreign = [zone for zone in zones if (region := names.region_of(zone)) and region not in regions]
        if foreign:
            where = f"{one.get('kind')}/{one['metadata']['name']}"
            remedy = _describe(names.region_of(foreign[0]), regions)
            yield InvalidManifest(where, "status.subnets", foreign[0], remedy, "warning")


def _describe(region: str, regions: Collection[str]) -> str:
    return (
        f"the catalogue has {', '.join(sorted(regions))}, so that types, zones and prices of this plan are those of "
        f"another region: give the catalogue of {region} with --catalogue FILE"
    )
