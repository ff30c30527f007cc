"""The addresses of a server, from whatever a person gives as its URL. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlsplit

_WEBSOCKET_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_HTTP_SCHEMES = {"ws": "http", "wss": "https"}
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Host and schemes of one server; `parse` accepts http, https, ws and wss URLs, or host:port."""

    websocket_scheme: str
    host: str
    path: str

    @classmethod
    def parse(cls, url: str) -> ServerAddress:
        """Raises ValueError, in words for people, when `url` names no server."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        scheme = _WEBSOCKET_SCHEMES.get(parts.scheme)
        if scheme is None or not parts.hostname:
            raise ValueError(f"not the address of a chat server: {url}")
        return cls(scheme, parts.netloc, parts.path.rstrip("/").removesuffix("/ws"))

    @property
    def origin(self) -> str:
        """The HTTP URL without a trailing slash."""
        return f"{_HTTP_SCHEMES[self.websocket_scheme]}://{self.host}{self.path}"

    @property
    def is_loopback(self) -> bool:
        """True when no proxy can lie between."""
        return urlsplit(f"//{self.host}").hostname in _LOOPBACK

    def socket_url(self, session_id: str | None) -> str:
        """Where the WebSocket of that session opens; None asks for a new session."""
        query = f"?session_id={quote(session_id, safe='')}" if session_id else ""
        return f"{self.websocket_scheme}://{self.host}{self.path}/ws{query}"

    def turn_url(self, turn_id: str) -> str:
        """Where one turn can be read."""
        return f"{self.origin}/v1/turns/{quote(turn_id, safe='')}"
