"""Catalogues for plans without AWS: the packaged one of us-east-1, or a file that ``joiner catalogue -o json`` wrote.

``python -m joiner_local.packaged_data.catalogue_facts`` collects the facts that are packaged. The packaged catalogue is
computed from them at run time, with the same formulas as in a deployed cluster.
"""

import fnmatch
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec

from joiner import names
from joiner.catalogue import Catalogue, InstanceType, instance_type_from_ec2, supports_nodes
from joiner.catalogue.instance_types import COMMITMENTS
from joiner.pools import InvalidManifest
from joiner.pools.codecs.manifest_fields import ManifestFields, ManifestProblems
from joiner_cli.catalogue_validation import read_commitments, read_type
from joiner_cli.manifests.manifest_documents import SeveralMistakes, UnreadableInput

PACKAGED_REGION: Final = "us-east-1"
MAX_REPORTED_ERRORS: Final = 5
GZIP: Final = b"\x1f\x8b"
NEWLINE: Final = b"\n"
SCHEMA_FIELD: Final = "schema"
"""A deployed Joiner stores its catalogue with the number of its schema beside the instance types, compressed."""


@dataclass(frozen=True, slots=True)
class LoadedCatalogue:
    """A catalogue, its source (a file name or ``packaged``), the date of its facts, and what has no effect in it."""

    catalogue: Catalogue
    source: str
    dated: str = ""
    problems: tuple[InvalidManifest, ...] = ()

    @property
    def zones(self) -> tuple[str, ...]:
        """Return the zones of its offerings, sorted."""
        return tuple(sorted({one.zone for known in self.catalogue.types.values() for one in known.offerings}))

    @property
    def regions(self) -> tuple[str, ...]:
        """Return the regions of its offerings, sorted."""
        return tuple(sorted({names.region_of(zone) for zone in self.zones} - {""}))

    def select(self, patterns: Sequence[str]) -> tuple[Catalogue, list[str]]:
        """Return the types that match a pattern (``*`` matches anything), and the patterns that match no type.

        Without patterns, all types match.
        """
        if not patterns:
            return self.catalogue, []
        meant = {pattern: fnmatch.filter(self.catalogue.types, pattern) for pattern in patterns}
        chosen = Catalogue.of(
            (self.catalogue.types[name] for name in {name for found in meant.values() for name in found}),
            self.catalogue.commitments,
        )
        return chosen, [pattern for pattern, found in meant.items() if not found]


def load_catalogue(path: Path | None, region: str | None) -> LoadedCatalogue:
    """Load the catalogue from a file, or the packaged one.

    With a region, a file's catalogue keeps only the offerings of that region. Raises ``UnreadableInput``.
    """
    if path is None:
        if region not in (None, PACKAGED_REGION):
            raise UnreadableInput(
                f"--region {region}",
                f"only the catalogue of {PACKAGED_REGION} is packaged",
                "give one of the region with --catalogue FILE",
            )
        facts = _facts()
        return LoadedCatalogue(packaged_catalogue(), "packaged", facts["dated"])
    found = _read(path)
    if region is None:
        return found
    committed = [one for one in found.catalogue.commitments if one.zone.startswith(region) or not one.zone]
    there = replace(found, catalogue=Catalogue.of(_only_in(region, found.catalogue.types.values()), committed))
    if not there.zones:
        raise UnreadableInput(
            str(path), f"it has no offerings in {region}", f"its zones are {', '.join(found.zones) or 'none'}"
        )
    return there


@cache
def packaged_catalogue() -> Catalogue:
    """Return every instance type of us-east-1 at its on-demand price."""
    facts = _facts()
    return Catalogue.of(
        instance_type_from_ec2(
            {**one["info"], "InstanceType": name},
            zones := [f"{facts['region']}{zone}" for zone in one["zones"]],
            dict.fromkeys(zones, one["price"]) if one["price"] is not None else {},
        )
        for name, one in facts["types"].items()
        if supports_nodes(one["info"])
    )


@cache
def _facts() -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(
        gzip.decompress(files("joiner_cli").joinpath("data", f"{PACKAGED_REGION}.json.gz").read_bytes())
    )
    return found


def _only_in(region: str, types: Iterable[InstanceType]) -> Iterable[InstanceType]:
    for known in types:
        there = [one for one in known.offerings if one.zone.startswith(region)]
        if there:
            yield known.with_offerings(there)


def _read(path: Path) -> LoadedCatalogue:
    raw = b""
    try:
        raw = _content(path)
        content = msgspec.json.decode(raw)
    except OSError as error:
        raise UnreadableInput(
            str(path), error.strerror or str(error), "name a file that `joiner catalogue -o json` wrote"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, EOFError, zlib.error) as error:
        raise UnreadableInput(
            str(path), _describe_broken_json(error, raw), "it must be JSON, as `joiner catalogue -o json` writes it"
        ) from error
    if not isinstance(content, Mapping):
        raise UnreadableInput(
            str(path), "it is not a mapping", 'write {"m5.large": {"labels", "capacity", "allocatable", "offerings"}}'
        )
    notes = ManifestProblems(str(path))
    types = [read_type(name, one, notes) for name, one in content.items() if name not in (SCHEMA_FIELD, COMMITMENTS)]
    commitments = read_commitments(ManifestFields(content, "", notes).many(COMMITMENTS), Catalogue.of(types))
    if notes.errors:
        shown = [f"{_describe_error(one)}: {one.remedy}" for one in notes.errors[:MAX_REPORTED_ERRORS]]
        more = len(notes.errors) - MAX_REPORTED_ERRORS
        raise SeveralMistakes(str(path), [*shown, *([f"and {more} more mistakes"] if more > 0 else [])])
    if not types:
        raise UnreadableInput(
            str(path), "it has no instance types", "name a file that `joiner catalogue -o json` wrote"
        )
    return LoadedCatalogue(Catalogue.of(types, commitments), str(path), problems=tuple(notes.problems))


def _describe_broken_json(error: Exception, content: bytes) -> str:
    """Return what is wrong with a text that is no JSON, with the line of the mistake if the parser tells it.

    >>> _describe_broken_json(ValueError("JSON is malformed: invalid character (byte 7)"), b'{"a":\\n 1,]}')
    'line 2 is no valid JSON'
    """
    if isinstance(error, EOFError | zlib.error):
        return "it is compressed, and incomplete or damaged: fetch it again"
    if not content:
        return "it is empty"
    if content[:1] not in b" \t\r\n{[" and not content[:4].isascii():
        return "it is compressed by something else than gzip, or no text"
    if "truncated" in str(error):
        return f"its JSON is incomplete at the end, in line {content.rstrip().count(NEWLINE) + 1}"
    at = re.search(r"\(byte (\d+)\)", str(error))
    return f"line {content[: int(at[1])].count(NEWLINE) + 1} is no valid JSON" if at else "it is no valid JSON"


def _content(path: Path) -> bytes:
    found = path.read_bytes()
    return gzip.decompress(found) if found.startswith(GZIP) else found


def _describe_error(one: InvalidManifest) -> str:
    return f"{one.field} is {one.value}" if one.value else f"{one.field} is missing"
