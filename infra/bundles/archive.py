"""Deterministic zip files: the same content always gives the same bytes."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

# The earliest time a zip entry can carry; a fixed one keeps the bytes, and so the hash, alike.
_ENTRY_TIME = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o100644
_EXECUTABLE_MODE = 0o100755


def write_archive(
    archive: Path, folder: Path, files: Iterable[PurePosixPath], *, is_compressed: bool
) -> int:
    """Append `files` of `folder` to `archive` in sorted order; returns their unzipped bytes.

    The archive is made when it does not exist. Uncompressed archives unpack several times faster,
    which is what a local cold start waits for.
    """
    method = zipfile.ZIP_DEFLATED if is_compressed else zipfile.ZIP_STORED
    total = 0
    with zipfile.ZipFile(archive, "a", method, compresslevel=6) as zipped:
        for relative in sorted(files):
            content = (folder / relative).read_bytes()
            entry = zipfile.ZipInfo(relative.as_posix(), _ENTRY_TIME)
            entry.compress_type = method
            mode = _EXECUTABLE_MODE if relative.suffix == ".so" else _FILE_MODE
            entry.external_attr = mode << 16
            zipped.writestr(entry, content)
            total += len(content)
    return total


def unzipped_bytes(archive: Path) -> int:
    """Sum of the unzipped sizes of an archive's files."""
    with zipfile.ZipFile(archive) as zipped:
        return sum(entry.file_size for entry in zipped.infolist())
