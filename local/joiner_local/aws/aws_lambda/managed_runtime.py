"""The Python packages of Lambda's managed runtime and nothing else: the runtime client, boto3, and what these two need.

A function must bring everything else in its zip or a layer. The interpreter of the runtime has more installed (this
project, in editable mode), which would hide that a layer is missing. So sandboxes run without site-packages, with a
folder of links to the managed packages at the end of their path, where the runtime has ``/var/runtime``.
"""

import json
import subprocess
from pathlib import Path

MANAGED = ("awslambdaric", "boto3")

# Runs in the interpreter of the runtime: prints the files of the managed packages, one top-level name a line.
_LIST = """
import importlib.metadata as metadata, json, re, sys
names, ahead = {}, list(sys.argv[1:])
seen = set()
while ahead:
    name = ahead.pop().lower().replace("_", "-")
    if name in seen:
        continue
    seen.add(name)
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        continue
    for file in distribution.files or []:
        top = file.parts[0]
        if top not in ("..", "__pycache__"):
            names[top] = str(distribution.locate_file(top))
    for needed in distribution.requires or []:
        if "extra ==" not in needed:
            ahead.append(re.match(r"[A-Za-z0-9._-]+", needed).group())
print(json.dumps(names))
"""


def managed_packages(python: Path, folder: Path) -> Path:
    """Fill the folder with links. The interpreter reports what it has installed, because it may be another one than
    this.
    """
    answer = subprocess.run([python, "-c", _LIST, *MANAGED], check=True, capture_output=True, text=True, timeout=60)
    found: dict[str, str] = json.loads(answer.stdout)
    missing = set(MANAGED) - found.keys()
    if missing:
        raise ModuleNotFoundError(f"{python} cannot play Lambda's runtime: it has no {', '.join(sorted(missing))}")
    folder.mkdir(parents=True, exist_ok=True)
    for name, place in found.items():
        link = folder / name
        if link.is_symlink() and str(link.readlink()) != place:
            link.unlink()
        if not link.is_symlink():
            link.symlink_to(place)
    return folder
