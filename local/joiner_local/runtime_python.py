"""A bare interpreter that plays Lambda's managed runtime: nothing in it but AWS's runtime client and boto3, as on AWS.

So a function that forgot something in its layers fails here as it would there.
"""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from joiner_local import caches, progress

CONSTRAINTS: Final = Path(__file__).parent.parent.parent / "constraints.txt"
PACKAGES: Final = ("awslambdaric", "boto3")

Say = Callable[[str], None]


def find_or_make(say: Say) -> Path:
    """The interpreter; the first call on a machine installs it into the user's cache."""
    pins = "\n".join(line for line in CONSTRAINTS.read_text().splitlines() if line)
    version = "{}.{}.{}".format(*sys.version_info[:3])
    key = hashlib.sha256(f"{sys.base_prefix} {version} {PACKAGES} {pins}".encode()).hexdigest()[:16]
    folder = caches.user_cache() / "runtime" / f"python{version}-{key}"
    return caches.made_once(folder, lambda fresh: _make(fresh, say), what="Lambda runtime", say=say) / "bin" / "python"


def _make(folder: Path, say: Say) -> None:
    """A venv may be renamed as long as only its `python` is used, which finds its packages from where it lies."""
    say("making the interpreter that plays Lambda's runtime, once")
    progress.run("venv", [sys.executable, "-m", "venv", "--without-pip", folder], say)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--disable-pip-version-check"]
    progress.run("pip", [*pip, "-c", CONSTRAINTS, *PACKAGES], say)
