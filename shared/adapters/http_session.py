"""The process's one HTTP client: kept-alive connections, bounded, with a deadline on every request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
from yarl import URL

from shared.errors import DependencyUnavailable

_AUTO_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=None)
# The peer closed an idle connection while the request was on its way.
_STALE_CONNECTION = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


class ConnectFailed(DependencyUnavailable):
    """No connection was made, so nothing was sent."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole answer; header names in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpSession:
    """Requests with small bodies on both sides. Made without an event loop, connected at the first request."""

    def __init__(self, *, connections: int = 512, keepalive_s: float = 15.0) -> None:
        self._connections = connections  # open at once; more wait within their own deadline
        self._keepalive_s = keepalive_s  # an idle connection is closed by us after this
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self,
        method: str,
        origin: str,
        target: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_s: float,
    ) -> HttpAnswer:
        """One request and its whole answer within `timeout_s`, waiting for a connection included.

        `target` (path and query) goes over the wire as given. Sent once more when a kept-alive connection turns out
        to be closed, so requests must be safe to repeat. Raises ConnectFailed when nothing was sent, otherwise
        DependencyUnavailable; any status is an answer.
        """
        url = URL(origin + target, encoded=True)
        try:
            async with asyncio.timeout(timeout_s):
                try:
                    return await self._exchange(method, url, headers, body)
                except aiohttp.ClientConnectorError:
                    raise
                except _STALE_CONNECTION:
                    return await self._exchange(method, url, headers, body)
        except aiohttp.ClientConnectorError as error:
            raise ConnectFailed(f"no connection to {origin}: {error.os_error}") from error
        except TimeoutError as error:
            raise DependencyUnavailable(f"{origin} did not answer in {timeout_s} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise DependencyUnavailable(f"{origin}: {type(error).__name__}") from error

    async def close(self) -> None:
        """Close every connection. Idempotent; a later request opens them again."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _exchange(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes
    ) -> HttpAnswer:
        session = self._session or self._open()
        async with session.request(
            method, url, data=body, headers=headers, allow_redirects=False
        ) as response:
            return HttpAnswer(response.status, response.headers, await response.read())

    def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=self._connections, keepalive_timeout=self._keepalive_s, ttl_dns_cache=10
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=_NO_TIMEOUT,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_AUTO_HEADERS,
        )
        return self._session
