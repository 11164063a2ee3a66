"""The recorded cases of Karpenter's scheduler as files for `joiner plan`: manifests as they are, instance types as a
catalogue.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.unit.planning.oracle import in_our_words


def as_files(case: Mapping[str, Any], folder: Path) -> tuple[Path, Path]:
    """Manifests and catalogue of one case of ``tests/data/oracle``."""
    manifests = [*case["nodePools"], *case["daemonSets"], *case["nodes"], *case["pods"]]
    return written(manifests, {one["name"]: in_our_words(one) for one in case["instanceTypes"]}, folder)


def written(manifests: Sequence[Mapping[str, Any]], catalogue: Mapping[str, Any], folder: Path) -> tuple[Path, Path]:
    """One List, and one catalogue as `joiner catalogue -o json` prints it."""
    files = folder / "world.json", folder / "catalogue.json"
    files[0].write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}), encoding="utf-8")
    files[1].write_text(json.dumps(catalogue), encoding="utf-8")
    return files
