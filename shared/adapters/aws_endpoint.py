"""One AWS endpoint over the process's HTTP session: requests signed, each with its deadline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.http_session import HttpAnswer, HttpSession
from shared.clock import Clock
from shared.errors import ConfigurationError
from shared.policy.sigv4 import sign

Method = Literal["DELETE", "GET", "POST", "PUT"]


def regional_url(host: str, region: str) -> str:
    """Where a service that calls itself `host` is found in a region."""
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://{host}.{region}.{domain}"


class AwsEndpoint:
    """A call is made once: its caller knows whether repeating it is safe."""

    def __init__(
        self,
        url: str,
        *,
        setting: str,
        service: str,
        http: HttpSession,
        credentials: AwsCredentials,
        clock: Clock,
        timeout_ms: int,
    ) -> None:
        """`service` is the name that signatures carry; `setting` is where the address came from.

        Raises ConfigurationError, naming it, when `url` is no http address.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise ConfigurationError(f"{setting}: {url!r} is no http address.")
        self._service = service
        self._http = http
        self._credentials = credentials
        self._clock = clock
        self._timeout_s = timeout_ms / 1000
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc

    async def send(
        self,
        method: Method,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        held_s: int = 0,
    ) -> HttpAnswer:
        """The answer, whatever its status, within the time-out; `held_s` on top of it when the service may wait.

        Raises DependencyUnavailable when there is none.
        """
        signature = sign(
            await self._credentials.current(),
            method,
            self._host,
            path,
            "",
            headers,
            body,
            self._clock.now_ms(),
            service=self._service,
        )
        return await self._http.send(
            method,
            self._origin,
            path,
            headers={**headers, **signature},
            body=body,
            timeout_s=self._timeout_s + held_s,
        )

    def forget_keys(self) -> None:
        """The service calls the keys stale: the next call asks for new ones."""
        self._credentials.forget()
