"""The Lua scripts of the ledger: composed from their parts, called by hash."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Final

Argument = str | bytes | int
Call = tuple[Argument, ...]
"""One command with its arguments, as it goes into a pipeline."""

_FOLDER: Final = Path(__file__).with_name("lua")
_texts: dict[str, bytes] = {}


class Script:
    """One atomic step. All keys of a call lie in one slot."""

    def __init__(self, text: bytes) -> None:
        self._sha = hashlib.sha1(text, usedforsecurity=False).hexdigest()
        _texts[self._sha] = text

    def call(self, keys: tuple[str, ...], *arguments: Argument) -> Call:
        """The command that runs the script by its hash."""
        return ("EVALSHA", self._sha, len(keys), *keys, *arguments)


@lru_cache
def load_script(name: str, *parts: str) -> Script:
    """The script `lua/<name>.lua`, its parts put in behind the first line (`#!lua` and its flags)."""
    shebang, _, body = (_FOLDER / f"{name}.lua").read_bytes().partition(b"\n")
    return Script(b"\n".join((shebang, *(_read_part(part) for part in parts), body)))


def with_text(call: Call) -> Call:
    """The same call carrying the script's text, for a server that does not know its hash (restart, failover)."""
    return ("EVAL", _texts[str(call[1])], *call[2:])


def _read_part(name: str) -> bytes:
    return (_FOLDER / f"{name}.lua").read_bytes()
