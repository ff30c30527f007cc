"""The page of the example assistant: static files and the assistant's own words, read once at start."""

from __future__ import annotations

import hashlib
import mimetypes
from pathlib import Path

import msgspec

from services.asgi import Scope, Send, headers_of, respond
from shared.contracts.knowledge import AssistantProfile
from shared.errors import ConfigurationError

PAGE_FOLDER = Path(__file__).parents[2] / "clients" / "web"
_INDEX = "index.html"
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_CONTENT_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'"
)
_FIXED_HEADERS = (
    (b"content-security-policy", _CONTENT_POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),  # kept, but asked for again: the ETag answers 304
)


class _File(msgspec.Struct, frozen=True):
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    etag: bytes


class WebPage:
    """Answers `/`, `/static/*` and `/assistant.json`."""

    def __init__(self, folder: Path, assistant_file: str) -> None:
        self._files = {
            f"/static/{path.relative_to(folder).as_posix()}": _file(path.read_bytes(), path.suffix)
            for path in (sorted(folder.rglob("*")) if folder.is_dir() else ())
            if path.is_file()
        }
        index = self._files.get(f"/static/{_INDEX}")
        if index is not None:
            self._files["/"] = index
        self._files["/assistant.json"] = _file(_profile(assistant_file), ".json")

    def has(self, path: str) -> bool:
        """True when `path` is one of the page's."""
        return path in self._files

    async def __call__(self, scope: Scope, send: Send) -> None:
        """Answer a GET or HEAD of a path that `has` knows."""
        file = self._files[scope["path"]]
        if scope["method"] not in {"GET", "HEAD"}:
            await respond(send, 405, headers=((b"allow", b"GET, HEAD"),))
            return
        known = headers_of(scope).get("if-none-match", "")
        if file.etag.decode() in (tag.strip().removeprefix("W/") for tag in known.split(",")):
            await respond(send, 304, headers=file.headers)
            return
        await respond(send, 200, file.body, file.headers)


def _profile(assistant_file: str) -> bytes:
    profile = AssistantProfile()
    if assistant_file:
        try:
            raw = Path(assistant_file).read_bytes()
            profile = msgspec.json.decode(raw, type=AssistantProfile)
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigurationError(
                f"BURSTCHAT_ASSISTANT_FILE={assistant_file} cannot be used: {error}."
            ) from error
    return msgspec.json.encode(profile)


def _file(body: bytes, suffix: str) -> _File:
    etag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'.encode()
    guessed = mimetypes.types_map.get(suffix, "application/octet-stream")
    kind = _TYPES.get(suffix, guessed).encode()
    headers = ((b"content-type", kind), (b"etag", etag), *_FIXED_HEADERS)
    return _File(body, headers, etag)
