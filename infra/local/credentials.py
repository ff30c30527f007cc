"""Secrets of one local stack: made once per state folder, readable by their owner only."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec


class Credentials(msgspec.Struct, frozen=True):
    """The push credential and the key that signs tokens."""

    push_access_key_id: str
    push_secret_access_key: str
    jwt_secret: str


def load_credentials(state_dir: Path) -> Credentials:
    """Read them, or make them on first use."""
    path = state_dir / "credentials.json"
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Credentials)
    made = Credentials(
        push_access_key_id="PUSH" + secrets.token_hex(8).upper(),
        push_secret_access_key=secrets.token_urlsafe(30),
        jwt_secret=secrets.token_urlsafe(36),
    )
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.encode(made))
    return made
