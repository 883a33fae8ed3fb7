"""A folder of small JSON files, one for each key, that many processes read and write at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from filelock import FileLock, Timeout

from pytest_exportready.graph.canonical import digest

LARGEST = 2**28  # bytes in all, by default
_WAIT = 5.0  # seconds for the one that is tidying up


class Store:
    """Entries under ``folder``, at most ``largest`` bytes in all: those not used for longest go first.

    Nothing in it is trusted: an entry that does not hold what its own checksum says is dropped, and a folder that
    cannot be written (full, read-only) is no error: ``tell`` is called with a line about it. Entries are plain JSON.
    """

    def __init__(self, folder: Path, largest: int = LARGEST, tell: Callable[[str], object] = lambda text: None) -> None:
        self.folder, self.largest, self.tell = folder, largest, tell

    def get(self, key: str) -> Mapping[str, Any] | None:
        """The entry for ``key``, which now counts as used; None if there is none, or it is corrupt."""
        path = self._path(key)
        try:
            held = json.loads(path.read_bytes())
            content: Mapping[str, Any] = held["content"]
            if held["checksum"] != _checksum(key, content) or not isinstance(content, dict):
                raise ValueError("its checksum is wrong")
            os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.tell(f"{path} cannot be read ({error.strerror})")
            return None
        except (ValueError, KeyError, TypeError) as error:
            self.tell(f"the corrupt entry {path.name} was dropped ({error})")
            path.unlink(missing_ok=True)
            return None
        return content

    def put(self, key: str, content: Mapping[str, Any]) -> None:
        """Keep ``content`` (plain JSON) for ``key``, whole or not at all."""
        path = self._path(key)
        text = json.dumps({"checksum": _checksum(key, content), "content": content})
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            (self.folder / ".gitignore").write_text("*\n")
            with NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False) as file:
                try:
                    file.write(text)
                    file.close()
                    os.replace(file.name, path)
                except OSError:
                    Path(file.name).unlink(missing_ok=True)
                    raise
            self._tidy()
        except OSError as error:
            self.tell(f"{path} cannot be written ({error.strerror})")

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def _tidy(self) -> None:
        """Remove what was not used for longest until the rest fits; one process at a time, the others go on."""
        try:
            with FileLock(self.folder / "tidy.lock", timeout=_WAIT):
                entries = sorted(filter(None, map(_used, self.folder.glob("*/*.json"))))
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


def _checksum(key: str, content: Mapping[str, Any]) -> str:
    return digest(key, json.dumps(content, sort_keys=True))
