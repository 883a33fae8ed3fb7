"""Write a file so that a reader sees the old or the complete new content."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from errno import EEXIST
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Replace ``path`` with ``data``, and make its folder if there is none.

    Raises:
        OSError: Full disk, no permission, or a folder or device of that name. It names ``path``; no partial file is
            left.
    """
    if path.exists() and not path.is_file():
        raise OSError(EEXIST, "it is not a file", os.fspath(path))
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("xb") as file:
            file.write(data)
        os.replace(draft, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        with suppress(OSError):
            draft.unlink()
