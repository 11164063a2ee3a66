"""Validates resource lists: names of resources, quantities, and requests within limits.

Source: Kubernetes, "Resource Management for Pods and Containers"; ``ValidateResourceRequirements``.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from joiner.cluster import InvalidField
from joiner.cluster.quantities import LARGEST, parse_amount
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.suggestions import suggest_nearest
from joiner_cli.manifests.validation.metadata_validation import QUALIFIED_NAME, is_key

NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
POD_LEVEL: Final = ("cpu", "memory")
HUGE: Final = "hugepages-"
LITTLE: Final = 2**20
"""A smaller number of bytes with the suffix m is a typing mistake; larger ones are written by programs."""


def is_extended_resource(name: str) -> bool:
    """Return whether this is an extended resource, such as a device: its domain is not kubernetes.io.

    >>> is_extended_resource("nvidia.com/gpu"), is_extended_resource("cpu"), is_extended_resource("kubernetes.io/x")
    (True, False, False)
    """
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io") and not name.startswith("requests.")


def check_amounts(amounts: Mapping[str, Any], notes: ManifestProblems, path: str, *, of_container: bool = True) -> None:
    """Note resources whose name or quantity is not valid."""
    for name, quantity in amounts.items():
        where = f"{path}[{name}]"
        if not is_key(name):
            notes.note(where, name, QUALIFIED_NAME)
        elif of_container and not (name in NATIVE or name.startswith(HUGE) or is_extended_resource(name)):
            notes.note(where, quantity, f"there is no such resource{suggest_nearest(name, NATIVE)}")
        elif (known := parse_quantity(quantity)) is None:
            continue  # the schema has noted its type
        elif known < 0:
            notes.note(where, quantity, "give a quantity of at least zero")
        elif (is_extended_resource(name) or name == "pods") and not _whole(quantity):
            notes.note(where, quantity, "pods and devices are whole numbers")
        elif name in ("memory", "ephemeral-storage") and str(quantity).endswith("m") and known < LITTLE:
            meant = f"{str(quantity)[:-1]}Mi"
            notes.note(where, quantity, f"m means thousandths of a byte; did you mean {meant}?", "warning")


def check_requirements(resources: Mapping[str, Any], notes: ManifestProblems, path: str) -> None:
    """Check ``resources`` of a container: requests are at most the limits; equal for devices and huge pages."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    check_amounts(limits, notes, f"{path}.limits")
    check_amounts(requests, notes, f"{path}.requests")
    for name, quantity in requests.items():
        asked, most = parse_quantity(quantity, name), parse_quantity(limits[name], name) if name in limits else None
        whole = is_extended_resource(name) or name.startswith(HUGE)
        if most is not None and asked is not None and (asked > most or (whole and asked != most)):
            remedy = f"it must be {'exactly' if whole else 'at most'} the limit, which is {limits[name]}"
            notes.note(f"{path}.requests[{name}]", quantity, remedy)
        elif whole and name not in limits:
            notes.missing(f"{path}.limits[{name}]", f"{name} can be requested only with an equal limit")
    names = {*limits, *requests}
    if any(name.startswith(HUGE) for name in names) and not names & set(POD_LEVEL):
        notes.note(path, resources, "huge pages need a request or limit of cpu or memory, too")


@lru_cache(maxsize=4096, typed=True)  # thousands of pods share a few quantities
def parse_quantity(quantity: Any, name: str = "") -> int | None:
    """Return the amount in the units of `Resources`; None if it is not valid."""
    try:
        return parse_amount(quantity, scale=1000 if name == "cpu" else 1)
    except InvalidField:
        return None


@lru_cache(maxsize=4096, typed=True)
def _whole(quantity: Any) -> bool:
    """Return whether the quantity is a whole number before rounding.

    >>> _whole("2"), _whole("500m"), _whole("1500m"), _whole("2000m")
    (True, False, False, True)
    """
    try:
        thousandths = parse_amount(quantity, scale=1000)
        return thousandths % 1000 == 0 and thousandths < LARGEST
    except InvalidField:
        return False
