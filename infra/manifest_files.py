"""The files under `manifests/`, which the deployment installs in the cluster, and their digest."""

import hashlib
from pathlib import Path
from typing import Final

MANIFESTS: Final = Path(__file__).parent.parent / "manifests"


def manifests_digest(folder: Path) -> str:
    """Return the digest of the paths and contents of all manifests, in order. The installer computes it from its own
    package, too (`functions/install_manifests`)."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.yaml"), key=lambda each: each.relative_to(folder).as_posix()):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
