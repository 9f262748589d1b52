"""Files written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: str | Path, data: bytes) -> None:
    """Write a file so that nobody ever sees half of it: beside its place first, then moved there.

    Raises:
        OSError: the folder does not exist or cannot be written.
    """
    target = Path(path)
    if target.exists() and not target.is_file():  # /dev/stdout and the like cannot be replaced
        target.write_bytes(data)
        return
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
