"""Secrets of one local stack: made once per state folder, readable by their owner only."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec


class Credentials(msgspec.Struct, frozen=True):
    """The push credential and the key that signs tokens."""

    push_access_key_id: str
    push_secret_access_key: str
    jwt_secret: str


def make_credentials(state_dir: Path, person: Mapping[str, str]) -> Credentials:
    """Those that the person set, else those of the run before, else new ones; kept for `load`."""
    path = _path(state_dir)
    kept = msgspec.structs.asdict(load_credentials(state_dir)) if path.exists() else {}

    def choose(name: str, size_bytes: int) -> str:
        given = person.get(f"BURSTCHAT_{name.upper()}")
        return given or kept.get(name) or secrets.token_urlsafe(size_bytes)

    made = Credentials(
        push_access_key_id=choose("push_access_key_id", 12),
        push_secret_access_key=choose("push_secret_access_key", 30),
        jwt_secret=choose("jwt_secret", 36),
    )
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.encode(made))
    return made


def load_credentials(state_dir: Path) -> Credentials:
    """Those of the newest run from this state folder."""
    return msgspec.json.decode(_path(state_dir).read_bytes(), type=Credentials)


def _path(state_dir: Path) -> Path:
    return state_dir / "credentials.json"
