"""Zip files for Lambda: Joiner's sources, and locked packages. Docker is not needed.

The same input results in the same bytes (sorted names, one date, no files of the machine), so a second synthesis
changes nothing, and CloudFormation uploads nothing twice. pip installs packages *for the target*, only from wheels with
the digests of the lock file, once for each lock file and target. The result stays in the user's cache beside its own
digest. A cached file whose digest differs is packed again.

If the target is an interpreter of this machine, as for the local stack, that interpreter compiles the modules, too: a
cold sandbox need not compile them, and starts in half the time. For other machines nothing can be compiled here.
"""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final

from infra.settings import HOST_RUNTIME, RuntimeSettings

ROOT: Final = Path(__file__).parent.parent

PACKAGE: Final = "functions"
"""The package of all functions, and its folder."""

BUNDLE_FORMAT: Final = "3"
"""Part of every cache key; changes with the way of packing."""

MANYLINUX: Final = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
"""Amazon Linux 2023 of Lambda has glibc 2.34. pip accepts only the tags that it is given, not older ones by itself."""

MACHINES: Final = ("x86_64", "aarch64")

EXCLUDED: Final = (
    "bin/*",  # scripts that name the interpreter of the machine that packs
    "*/tests/*",
    "*/test/*",
    "*.pyi",
    "*/__pycache__/*",
    "*.dist-info/RECORD",  # lists excluded files, too
    "*.dist-info/INSTALLER",
    "*.dist-info/REQUESTED",
    "*.dist-info/direct_url.json",
)

EXCLUDED_SOURCES: Final = ("README.md", "event.json", "py.typed", ".*", "*/.*")
"""Files beside the code for users, tests and type checkers, and the caches of those tools."""

UNUSED_DAYS: Final = 30
"""Bundles that no synthesis used for so many days are removed from the cache."""

CACHE_LIMIT_BYTES: Final = 1_000_000_000
"""Above this size, the least recently used bundles are removed from the cache. One deployment needs about 50 MB."""


COMPILE: Final = """
import json, py_compile, sys
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
for source, bytecode, name in json.load(sys.stdin):
    try:
        py_compile.compile(source, cfile=bytecode, dfile=name, doraise=True, invalidation_mode=mode)
    except py_compile.PyCompileError:
        pass  # a template for another version of Python, which is never imported
"""
"""Program that the target's interpreter runs to compile modules."""


class BundlingError(RuntimeError):
    """Something cannot be packed. The message names the file and the line to change."""


@dataclass(frozen=True, slots=True)
class BundleTarget:
    """The Python version and the architecture for which bundles are made. `interpreter` is a Python of this machine
    with both, if one is known."""

    python: str
    architecture: str
    interpreter: Path | None = None

    @classmethod
    def of(cls, runtime: RuntimeSettings, interpreter: Path | None = None) -> "BundleTarget":
        """Return the target of the settings.

        With the architecture `host`, functions run on this machine: with `interpreter` if one is given, whatever
        version the settings name. Otherwise the Python `host` is the running interpreter.
        """
        running = Path(sys.executable)
        if runtime.architecture != HOST_RUNTIME:
            return cls(_version(running) if runtime.python == HOST_RUNTIME else runtime.python, runtime.architecture)
        machine = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
        chosen = interpreter or (running if runtime.python == HOST_RUNTIME else None)
        return cls(_version(chosen), machine, chosen) if chosen else cls(runtime.python, machine)

    @property
    def pip_options(self) -> tuple[str, ...]:
        """The options by which pip installs for the target. None for an interpreter of this machine: pip asks it what
        it can load, also on macOS."""
        if self.interpreter:
            return ()
        platforms = tuple(option for tag in MANYLINUX for option in ("--platform", f"{tag}_{self.machine}"))
        return (*platforms, "--python-version", self.python, "--implementation", "cp")

    @property
    def machine(self) -> str:
        """The architecture as Linux and wheels name it."""
        return "aarch64" if self.architecture == "arm64" else "x86_64"

    @property
    def foreign(self) -> tuple[str, ...]:
        """Patterns of Joiner's compiled libraries that this target cannot load."""
        return tuple(f"*-{machine}.so" for machine in MACHINES if machine != self.machine)

    @property
    def compiler(self) -> str:
        """What compiles modules for this target; empty if nothing on this machine can."""
        return " ".join(_facts(self.interpreter)) if self.interpreter else ""

    def __str__(self) -> str:
        return f"python {self.python} on {self.architecture}"


@cache
def _facts(interpreter: Path) -> tuple[str, str, str]:
    """Return the platform, the tag of compiled modules and the version of an interpreter."""
    program = "import sys; print(sys.platform, sys.implementation.cache_tag, f'{sys.hexversion:x}')"
    output = subprocess.run([interpreter, "-I", "-c", program], capture_output=True, text=True, check=True).stdout
    platform_, tag, version = output.split()
    return platform_, tag, version


def _version(interpreter: Path) -> str:
    """Return the version of an interpreter, such as ``3.13``."""
    version = int(_facts(interpreter)[2], 16)
    return f"{version >> 24}.{version >> 16 & 0xFF}"


def cache_folder() -> Path:
    """Return the folder of the bundles: the user's cache, which all checkouts share."""
    root = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(root) if root else Path.home() / ".cache") / "joiner" / "bundles"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def bundle_sources(name: str, trees: Mapping[str, Path], target: BundleTarget) -> Path:
    """Pack our own files: each folder below its prefix (`""` is the top), a single file under the name that stands for
    it."""
    single = {inside: path for inside, path in trees.items() if path.is_file()}
    files = single | {
        f"{prefix}/{inside}".lstrip("/"): path
        for prefix, root in trees.items()
        for path in root.rglob("*")
        if path.is_file()
        and not _is_excluded(inside := path.relative_to(root).as_posix(), (*EXCLUDED_SOURCES, *target.foreign))
    }
    if not files:
        raise BundlingError(f"nothing to pack for {name} in {', '.join(map(str, trees.values()))}")
    digest = hashlib.sha256(f"{BUNDLE_FORMAT} {target.compiler}".encode())
    for inside, path in sorted(files.items()):
        digest.update(f"\0{inside}\0".encode() + path.read_bytes())
    return _cached_zip(f"{name}-{digest.hexdigest()[:16]}.zip", files, target)


def bundle_function(name: str, files: Mapping[str, Path], target: BundleTarget) -> Path:
    """Pack a function as a part of the package `functions`; `files` are folders that come into its own."""
    package, folder = f"{PACKAGE}/__init__.py", f"{PACKAGE}/{name}"
    inside = {f"{folder}/{prefix}": path for prefix, path in files.items()}
    return bundle_sources(name, {package: ROOT / package, folder: ROOT / folder, **inside}, target)


def bundle_requirements(layer: Path, target: BundleTarget) -> Path:
    """Install a layer's locked packages for the target, pack them under `python/` as Lambda requires, and return the
    zip file. Raises BundlingError if pip fails."""
    lock, omit = layer / "requirements.lock", layer / "omit.txt"
    left_out = tuple(_lines(omit)) if omit.exists() else ()
    locked = tuple(_lines(lock))
    key = hashlib.sha256(repr((BUNDLE_FORMAT, locked, left_out, str(target), target.compiler)).encode())
    path = cache_folder() / f"{layer.name}-{key.hexdigest()[:16]}.zip"
    if _is_cached_intact(path):
        return path
    with tempfile.TemporaryDirectory(prefix="joiner-bundle-") as work:
        root = Path(work)
        _pip_install(lock, root, target)
        files = {
            f"python/{inside}": file
            for file in root.rglob("*")
            if file.is_file() and not _is_excluded(inside := file.relative_to(root).as_posix(), left_out)
        }
        return _cached_zip(path.name, files, target)


def _pip_install(lock: Path, into: Path, target: BundleTarget) -> None:
    command = (
        *(sys.executable, "-m", "pip", *(("--python", str(target.interpreter)) if target.interpreter else ())),
        *("install", "--quiet", "--disable-pip-version-check", "--no-input"),
        *(
            "--require-hashes",
            "--no-deps",
            "--no-compile",
            "--only-binary=:all:",
            "--target",
            str(into),
            *target.pip_options,
        ),
        *("--requirement", str(lock)),
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BundlingError(_explain_pip_failure(lock, done.stderr, target))


def _explain_pip_failure(lock: Path, complaint: str, target: BundleTarget) -> str:
    """Return pip's error, with the line of the lock file that causes it."""
    last = complaint.strip().splitlines()[-1] if complaint.strip() else "pip printed nothing"
    lines = lock.read_text(encoding="utf-8").splitlines()
    if "DO NOT MATCH THE HASHES" in complaint:
        named = re.search(r"^\s+([\w.-]+)==\S+ from ", complaint, re.MULTILINE)
        found = next(
            (
                number
                for number, line in enumerate(lines, 1)
                if named and line.lower().startswith(f"{named[1].lower()}==")
            ),
            1,
        )
        cause = (
            "pip downloaded a file whose digest is not in the lock file: find out why before you update the lock file"
        )
        return f"{lock}:{found}: {cause}. pip: {last.strip()}"
    named = re.search(r"(?:No matching distribution found for|satisfies the requirement) ([\w.-]+)", complaint)
    for number, line in enumerate(lines, 1):
        if named and re.match(rf"{re.escape(named[1])}\b", line, re.IGNORECASE):
            pinned = re.split(r"#|;|\\|--hash", line)[0].strip()
            return f"{lock}:{number}: {pinned} has no wheel for {target}: pin a version that has one. pip: {last}"
    return f"{lock}: pip could not install this for {target}. pip: {last}"


def _lines(path: Path) -> Iterable[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if content := line.split("#")[0].strip():
            yield content


def _is_excluded(inside: str, more: tuple[str, ...] = ()) -> bool:
    return any(fnmatchcase(inside, pattern) or fnmatchcase(f"/{inside}", pattern) for pattern in (*EXCLUDED, *more))


def _cached_zip(name: str, files: Mapping[str, Path], target: BundleTarget) -> Path:
    """Return the zip file of these files from the cache, or pack it. Two syntheses may pack at the same time."""
    path = cache_folder() / name
    if _is_cached_intact(path):
        return path
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".packing-") as work:
        packed = Path(work) / name
        compiled = _compiled(files, Path(work), target.interpreter) if target.interpreter else {}
        with zipfile.ZipFile(packed, "w") as archive:
            for inside, file in sorted({**files, **compiled}.items()):
                entry = zipfile.ZipInfo(inside, date_time=(1980, 1, 1, 0, 0, 0))  # the earliest date of a zip entry
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o100644 << 16
                archive.writestr(entry, file.read_bytes())
        digest = Path(work) / "digest"
        digest.write_text(_digest(packed), encoding="ascii")
        digest.replace(_digest_path(path))  # first: a bundle with another digest is packed again
        packed.replace(path)
    _remove_unused_bundles()
    return path


def _is_cached_intact(path: Path) -> bool:
    """Return whether the cache has the bundle with the content that was packed, and mark it as used."""
    try:
        if _digest_path(path).read_text(encoding="ascii") != _digest(path):
            return False
        path.touch()
    except OSError:  # missing, or another synthesis has just removed it
        return False
    return True


def _digest_path(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _compiled(files: Mapping[str, Path], work: Path, interpreter: Path) -> dict[str, Path]:
    """Return the bytecode of each module, by the path where an import finds it. It is not checked against the source:
    dates in a zip are meaningless, and layers are never edited."""
    modules = {inside: work / f"{number}.pyc" for number, inside in enumerate(sorted(files)) if inside.endswith(".py")}
    wanted = json.dumps([[str(files[inside]), str(bytecode), inside] for inside, bytecode in modules.items()])
    subprocess.run([interpreter, "-I", "-c", COMPILE], input=wanted, text=True, check=True)
    tag = _facts(interpreter)[1]
    places = {inside: inside.rpartition("/") for inside, bytecode in modules.items() if bytecode.exists()}
    return {
        f"{folder}/__pycache__/{module.removesuffix('.py')}.{tag}.pyc".lstrip("/"): modules[inside]
        for inside, (folder, _, module) in places.items()
    }


def _remove_unused_bundles() -> None:
    """Remove bundles that are too old, then the least recently used ones until the cache is small enough."""
    oldest, left = time.time() - UNUSED_DAYS * 86_400, CACHE_LIMIT_BYTES
    for path, used, size in sorted(_bundles(), key=lambda bundle: -bundle[1]):
        left -= size
        if used < oldest or left < 0:
            path.unlink(missing_ok=True)
            _digest_path(path).unlink(missing_ok=True)


def _bundles() -> Iterable[tuple[Path, float, int]]:
    """Return every bundle of the cache, the time of its last use, and its size in bytes."""
    for path in cache_folder().glob("*.zip"):
        try:
            known = path.stat()
        except FileNotFoundError:
            continue
        yield path, known.st_mtime, known.st_size
