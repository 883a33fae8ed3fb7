"""A folder with one file for each entry, which many processes read and write at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

import xxhash
from filelock import FileLock, Timeout

LARGEST = 2**28  # bytes in all, by default
_WAIT = 5.0  # seconds for the process that is removing entries


class Store:
    """Bytes under a name. The least recently used entries are removed first.

    An entry that does not match its checksum is dropped. The checksum finds truncated and corrupt files, not forged
    ones: whoever can write to this folder is trusted, as with ``__pycache__``.

    Args:
        largest: Bytes of all entries together.
        warn: Called with a sentence about a folder that cannot be read or written, which is not an error.
    """

    def __init__(self, folder: Path, largest: int = LARGEST, warn: Callable[[str], object] = lambda text: None) -> None:
        self.folder, self.largest, self.warn = folder, largest, warn

    def get(self, name: str) -> bytes | None:
        """Return the entry ``name``, which now counts as used; None if there is none, or it is corrupt."""
        path = self._path(name)
        try:
            checksum, _, content = path.read_bytes().partition(b"\n")
            if checksum != _checksum(name, content):
                path.unlink(missing_ok=True)
                self.warn(f"The corrupt cache entry {name} was dropped.")
                return None
            os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.warn(f"The cache entry {path} cannot be read: {error.strerror}.")
            return None
        return content

    def put(self, name: str, content: bytes) -> None:
        """Save ``content`` as ``name``, whole or not at all; content larger than the whole limit is not saved."""
        if len(content) > self.largest:
            size, limit = len(content) >> 20, self.largest >> 20
            self.warn(f"The cache entry {name} of {size} MiB exceeds --export-ready-cache-mib={limit}.")
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
            self._remove_excess()
        except OSError as error:
            self.warn(f"The cache entry {path} cannot be written: {error.strerror}.")

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / name

    def _remove_excess(self) -> None:
        """Remove the least recently used entries until the rest fits; one process at a time, the others go on."""
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
    """Return when an entry was last used, and its size."""
    try:
        status = path.stat()
    except OSError:
        return None  # another process removed it
    return status.st_mtime_ns, status.st_size, path


def _checksum(name: str, content: bytes) -> bytes:
    hashed = xxhash.xxh3_128(name.encode())
    hashed.update(content)
    return hashed.hexdigest().encode()
