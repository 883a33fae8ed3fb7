"""Write a report so that a reader sees the old file or the whole new one, never half of it."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Replace ``path`` with ``data``; its folder is made where there is none.

    Raises OSError (full disk, no permission, a folder or a device of that name); nothing of the attempt is left behind
    then.
    """
    if path.exists() and not path.is_file():
        raise OSError(f"{path} exists and is no file")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with draft.open("xb") as file:
            file.write(data)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
