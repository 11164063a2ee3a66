"""Unpack the zips of functions and layers, once for each content: what Lambda mounts at ``/var/task`` and ``/opt``.

>>> from pathlib import Path; from tempfile import mkdtemp
>>> from io import BytesIO; from zipfile import ZipFile
>>> archive = BytesIO()
>>> with ZipFile(archive, "w") as zipped: zipped.writestr("handler.py", "print()")
>>> sorted(file.name for file in PackageStore(Path(mkdtemp())).unpack(Archive("abc", archive.getvalue())).iterdir())
['handler.py']
"""

import hashlib
import io
import shutil
import tempfile
import threading
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

LARGEST_UNZIPPED = 262_144_000  # bytes, function and layers together ("Lambda quotas")


@dataclass(frozen=True, slots=True)
class Archive:
    """A zip; `digest` is its sha-256, which moto has computed already."""

    digest: str
    content: bytes

    @property
    def unzipped(self) -> int:
        with zipfile.ZipFile(io.BytesIO(self.content)) as zipped:
            return sum(file.file_size for file in zipped.infolist())


@dataclass(slots=True)
class PackageStore:
    root: Path
    _known: dict[tuple[str, ...], Path] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        # Sandboxes have another working directory, so the folder must be absolute.
        self.root = self.root.absolute()
        self.root.mkdir(parents=True, exist_ok=True)

    def unpack(self, *archives: Archive) -> Path:
        """Return one folder with the content of all archives, later ones over earlier ones, as Lambda merges layers."""
        key = tuple(archive.digest for archive in archives)
        with self._lock:
            if key not in self._known:
                folder = self.root / hashlib.sha256("\n".join(key).encode()).hexdigest()[:32]
                if not folder.is_dir():
                    self._unpack_to(folder, archives)
                self._known[key] = folder
            return self._known[key]

    def _unpack_to(self, folder: Path, archives: tuple[Archive, ...]) -> None:
        unfinished = Path(tempfile.mkdtemp(dir=self.root))
        try:
            for archive in archives:
                with zipfile.ZipFile(io.BytesIO(archive.content)) as zipped:
                    for file in zipped.infolist():
                        target = Path(zipped.extract(file, unfinished))
                        mode = file.external_attr >> 16
                        if mode and not file.is_dir():
                            target.chmod(mode & 0o777 | 0o444)
            unfinished.chmod(0o755)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
