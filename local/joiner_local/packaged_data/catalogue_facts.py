"""`python -m joiner_local.packaged_data.catalogue_facts`: write the facts of us-east-1 that the `joiner` command is
packaged with.

The facts are dated: the instance types of DescribeInstanceTypes, the zones in which they are offered, and their
on-demand prices. Spot prices are not included, because they change by the minute. Labels, capacity and allocatable are
computed from these facts by the formulas of a deployed cluster (``joiner.catalogue.ec2_instance_types``).
"""

import gzip
import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import moto

from joiner_local.aws.ec2 import ec2_prices

REGION: Final = "us-east-1"
PACKAGED: Final = Path(__file__).parents[3] / "cli" / "joiner_cli" / "data" / f"{REGION}.json.gz"
TABLES: Final = Path(moto.__file__).parent / "ec2" / "resources"

READ: Final[Mapping[str, Any]] = {
    "SupportedVirtualizationTypes": None,
    "SupportedUsageClasses": None,
    "Hypervisor": None,
    "ProcessorInfo": {
        "SupportedArchitectures": None,
        "SupportedFeatures": None,
        "SustainedClockSpeedInGhz": None,
        "Manufacturer": None,
    },
    "PlacementGroupInfo": {"SupportedStrategies": None},
    "VCpuInfo": {"DefaultVCpus": None},
    "MemoryInfo": {"SizeInMiB": None},
    "NetworkInfo": {
        "DefaultNetworkCardIndex": None,
        "MaximumNetworkInterfaces": None,
        "Ipv4AddressesPerInterface": None,
        "EncryptionInTransitSupported": None,
        "NetworkCards": {"NetworkCardIndex": None, "MaximumNetworkInterfaces": None, "InterfaceTypes": None},
        "EfaInfo": {"MaximumEfaInterfaces": None},
    },
    "EbsInfo": None,
    "InstanceStorageInfo": None,
    "GpuInfo": None,
    "NeuronInfo": None,
    "InferenceAcceleratorInfo": None,
}
"""The part of a description that our formulas read; None keeps a field whole."""


def facts() -> dict[str, Any]:
    """Return the packaged facts: one entry a type, its description with the letters of its zones and its price in US$
    an hour.
    """
    table = json.loads(ec2_prices.TABLE.read_text(encoding="utf-8"))
    published = {
        f"{family}.{size}": price for family, sizes in table["prices"].items() for size, price in sizes.items()
    }
    described = _read(TABLES / "instance_types.json.gz")
    zones: dict[str, str] = {}
    for one in _read(TABLES / "instance_type_offerings" / "availability-zone" / f"{REGION}.json.gz"):
        zones[one["InstanceType"]] = "".join(
            sorted({*zones.get(one["InstanceType"], ""), one["Location"].removeprefix(REGION)})
        )
    return {
        "region": REGION,
        "dated": table["generated"][:10],
        "sources": [
            "types and zones: DescribeInstanceTypes and -Offerings as copied by moto "
            f"{importlib.metadata.version('moto')}",
            f"prices: {table['source']}, {table['generated'][:10]}",
        ],
        "types": {
            name: {"zones": zones[name], "price": published[name], "info": _kept(described[name], READ)}
            for name in sorted(described.keys() & published.keys() & zones.keys())
        },
    }


def _kept(text: Any, fields: Mapping[str, Any] | None) -> Any:
    if fields is None:
        return text
    if isinstance(text, list):
        return [_kept(one, fields) for one in text]
    return {name: _kept(text[name], inner) for name, inner in fields.items() if text.get(name) is not None}


def _read(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def packed(document: Mapping[str, Any]) -> bytes:
    """Compress the facts to the same bytes every time."""
    return gzip.compress(json.dumps(document, sort_keys=True, separators=(",", ":")).encode(), compresslevel=9, mtime=0)


def main() -> None:
    document = facts()
    PACKAGED.parent.mkdir(exist_ok=True)
    PACKAGED.write_bytes(packed(document))
    print(f"{PACKAGED}: {len(document['types'])} types, {PACKAGED.stat().st_size} bytes")


if __name__ == "__main__":
    main()
