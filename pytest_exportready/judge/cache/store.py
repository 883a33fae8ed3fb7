"""A folder of small files, one for each entry, that many processes read and write at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

import xxhash
from filelock import FileLock, Timeout

LARGEST = 2**28  # bytes in all, by default
_WAIT = 5.0  # seconds for the one that is tidying up


class Store:
    """Entries in ``folder``, bytes under a name, at most ``largest`` bytes in all: those not used for longest go first.

    An entry that does not hold what its own checksum says is dropped. The checksum finds what was cut short or decayed,
    not what somebody forged: who can write to this folder is trusted as with ``__pycache__``. A folder that cannot be
    written (full, read-only) is no error: ``tell`` is called with a line about it.
    """

    def __init__(self, folder: Path, largest: int = LARGEST, tell: Callable[[str], object] = lambda text: None) -> None:
        self.folder, self.largest, self.tell = folder, largest, tell

    def get(self, name: str) -> bytes | None:
        """The entry ``name``, which now counts as used; None if there is none, or it is corrupt."""
        path = self._path(name)
        try:
            checksum, _, content = path.read_bytes().partition(b"\n")
            if checksum != _checksum(name, content):
                path.unlink(missing_ok=True)
                self.tell(f"the corrupt entry {name} was dropped")
                return None
            os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.tell(f"{path} cannot be read ({error.strerror})")
            return None
        return content

    def put(self, name: str, content: bytes) -> None:
        """Keep ``content`` as ``name``, whole or not at all; what is larger than all entries may be is not kept."""
        if len(content) > self.largest:
            size, limit = len(content) >> 20, self.largest >> 20
            self.tell(f"{name} is not kept: {size} MiB, and all may have {limit} (--export-ready-cache-mib)")
            return
        path = self._path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            (self.folder / ".gitignore").write_text("*\n")
            with NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
                try:
                    file.write(_checksum(name, content) + b"\n")
                    file.write(content)
                    file.close()
                    os.replace(file.name, path)
                except OSError:
                    Path(file.name).unlink(missing_ok=True)
                    raise
            self._tidy()
        except OSError as error:
            self.tell(f"{path} cannot be written ({error.strerror})")

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / name

    def _tidy(self) -> None:
        """Remove what was not used for longest until the rest fits; one process at a time, the others go on."""
        try:
            with FileLock(self.folder / "tidy.lock", timeout=_WAIT):
                entries = sorted(filter(None, map(_used, self.folder.glob("*/*"))))
                excess = sum(size for _, size, _ in entries) - self.largest
                for _, size, path in entries:
                    if excess <= 0:
                        break
                    path.unlink(missing_ok=True)
                    excess -= size
        except Timeout:
            pass


def _used(path: Path) -> tuple[int, int, Path] | None:
    """When it was used last, its size."""
    try:
        status = path.stat()
    except OSError:
        return None  # another process removed it
    return status.st_mtime_ns, status.st_size, path


def _checksum(name: str, content: bytes) -> bytes:
    hashed = xxhash.xxh3_128(name.encode())
    hashed.update(content)
    return hashed.hexdigest().encode()
