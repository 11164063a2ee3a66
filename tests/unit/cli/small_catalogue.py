"""A small part of the packaged catalogue, as a file: quick to plan from."""

import json
from pathlib import Path

from joiner.catalogue import Catalogue
from joiner_cli.catalogue_files import packaged_catalogue

TYPES = (
    "m5.large",
    "m5.xlarge",
    "m6i.2xlarge",
    "m7g.large",
    "c6i.large",
    "c6i.4xlarge",
    "c7g.xlarge",
    "r5.xlarge",
    "r6g.2xlarge",
    "g4dn.xlarge",
    "g5.2xlarge",
)


def small(*more: str) -> Catalogue:
    """Return these types and ``more``."""
    return Catalogue.of(packaged_catalogue().types[name] for name in (*TYPES, *more))


def written(folder: Path, *more: str) -> Path:
    path = folder / "catalogue.json"
    path.write_text(json.dumps(small(*more).to_json()), encoding="utf-8")
    return path
