"""Renders instance types as a table: allocatable resources, price and zones."""

from joiner import names
from joiner.catalogue import Catalogue, InstanceType
from joiner_cli.rendering.text_columns import format_columns

DEVICES = ("nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "habana.ai/gaudi")


def render_catalogue_table(catalogue: Catalogue) -> str:
    """Return one line for each instance type and capacity type; the price is the lowest of its zones."""
    headings = ["INSTANCE TYPE", "ARCH", ">VCPU", ">CPU", ">MEMORY", ">PODS", "DEVICES", "CAPACITY", ">$/H", "ZONES"]
    return format_columns(headings, [row for known in catalogue.types.values() for row in _rows(known)])


def _rows(known: InstanceType) -> list[list[str]]:
    allocatable = known.allocatable.to_kube()
    devices = ", ".join(f"{known.capacity[name]} {name}" for name in DEVICES if known.capacity.get(name))
    start = [
        known.name,
        known.arch,
        str(known.vcpus),
        *(allocatable.get(name, "-") for name in ("cpu", "memory", "pods")),
        devices or "-",
    ]
    rows = []
    for capacity_type in names.CAPACITY_TYPES:
        offered = [one for one in known.offerings if one.capacity_type == capacity_type and one.available]
        if offered:
            rows.append(
                [
                    *start,
                    capacity_type,
                    f"{min(one.price_per_hour for one in offered):.4f}",
                    _zones([one.zone for one in offered]),
                ]
            )
    return rows or [[*start, "-", "-", "-"]]


def _zones(zones: list[str]) -> str:
    """List zones; the zones of one region share its name.

    >>> _zones(["us-east-1b", "us-east-1a"]), _zones(["eu-west-1a"]), _zones(["use1-az1", "moon"])
    ('us-east-1 a b', 'eu-west-1a', 'moon use1-az1')
    """
    regions = {zone[:-1] for zone in zones}
    if len(zones) < 2 or len(regions) != 1:
        return " ".join(sorted(zones))
    return f"{regions.pop()} {' '.join(sorted(zone[-1] for zone in zones))}"
