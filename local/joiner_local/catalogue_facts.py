"""`python -m joiner_local.catalogue_facts`: writes the facts of us-east-1 that the `joiner` command ships with.

Facts only, each dated: which instance types there are, as DescribeInstanceTypes tells it, in which zones they are offered, and what they
cost on demand. Spot prices are none of them: they change by the minute. Labels, capacity and allocatable are not written here; they are
computed from these facts by the same formulas as for a deployed cluster (``joiner.catalogue.ec2_instance_types``).
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
PACKAGED: Final = Path(__file__).parents[2] / "cli" / "joiner_cli" / "data" / f"{REGION}.json.gz"
TABLES: Final = Path(moto.__file__).parent / "ec2" / "resources"

READ: Final[Mapping[str, Any]] = {
    "SupportedVirtualizationTypes": None,
    "SupportedUsageClasses": None,
    "Hypervisor": None,
    "ProcessorInfo": {"SupportedArchitectures": None, "SustainedClockSpeedInGhz": None, "Manufacturer": None},
    "VCpuInfo": {"DefaultVCpus": None},
    "MemoryInfo": {"SizeInMiB": None},
    "NetworkInfo": {
        "DefaultNetworkCardIndex": None,
        "MaximumNetworkInterfaces": None,
        "Ipv4AddressesPerInterface": None,
        "EncryptionInTransitSupported": None,
        "NetworkCards": {"NetworkCardIndex": None, "MaximumNetworkInterfaces": None},
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
    """What is packaged: one entry a type, its description beside the letters of its zones and its price in $/h."""
    table = json.loads(ec2_prices.TABLE.read_text(encoding="utf-8"))
    published = {f"{family}.{size}": price for family, sizes in table["prices"].items() for size, price in sizes.items()}
    described = _read(TABLES / "instance_types.json.gz")
    zones: dict[str, str] = {}
    for one in _read(TABLES / "instance_type_offerings" / "availability-zone" / f"{REGION}.json.gz"):
        zones[one["InstanceType"]] = "".join(sorted({*zones.get(one["InstanceType"], ""), one["Location"].removeprefix(REGION)}))
    return {
        "region": REGION,
        "dated": table["generated"][:10],
        "sources": [
            f"types and zones: DescribeInstanceTypes and -Offerings as copied by moto {importlib.metadata.version('moto')}",
            f"prices: {table['source']}, {table['generated'][:10]}",
        ],
        "types": {
            name: {"zones": zones[name], "price": published[name], "info": _kept(described[name], READ)}
            for name in sorted(described.keys() & published.keys() & zones.keys())
        },
    }


def _kept(said: Any, fields: Mapping[str, Any] | None) -> Any:
    if fields is None:
        return said
    if isinstance(said, list):
        return [_kept(one, fields) for one in said]
    return {name: _kept(said[name], inner) for name, inner in fields.items() if said.get(name) is not None}


def _read(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def packed(document: Mapping[str, Any]) -> bytes:
    """Compressed, and the same bytes every time."""
    return gzip.compress(json.dumps(document, sort_keys=True, separators=(",", ":")).encode(), compresslevel=9, mtime=0)


def main() -> None:
    document = facts()
    PACKAGED.parent.mkdir(exist_ok=True)
    PACKAGED.write_bytes(packed(document))
    print(f"{PACKAGED}: {len(document['types'])} types, {PACKAGED.stat().st_size} bytes")


if __name__ == "__main__":
    main()
