"""OpenSearch over the process's HTTP session, signed like every AWS request."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_endpoint import AwsEndpoint, Method
from shared.adapters.http_session import HttpSession
from shared.clock import Clock
from shared.errors import ConfigurationError, DependencyUnavailable, PermanentError

SERVICE: Final = "es"


class OpenSearchRefused(PermanentError):
    """This very request was refused."""


class NoSuchIndex(ConfigurationError):
    """Nothing was found at the path."""


class OpenSearchApi:
    """One domain. A call is made once, within the time-out."""

    def __init__(
        self,
        url: str,
        *,
        http: HttpSession,
        credentials: AwsCredentials,
        clock: Clock,
        timeout_ms: int,
    ) -> None:
        if urlsplit(url).path.strip("/"):
            raise ConfigurationError(
                f"BURSTCHAT_OPENSEARCH_URL: {url!r} is not the address of a domain, `https://host`."
            )
        self._endpoint = AwsEndpoint(
            url,
            setting="BURSTCHAT_OPENSEARCH_URL",
            service=SERVICE,
            http=http,
            credentials=credentials,
            clock=clock,
            timeout_ms=timeout_ms,
        )

    async def call(
        self, method: Method, path: str, body: bytes = b"", *, is_bulk: bool = False
    ) -> Any:
        """The answer's JSON; `is_bulk` for bodies of JSON lines.

        Raises DependencyUnavailable (could not ask, throttled, a fault of the domain), NoSuchIndex,
        ConfigurationError (not permitted) and OpenSearchRefused.
        """
        content_type = "application/x-ndjson" if is_bulk else "application/json"
        answer = await self._endpoint.send(method, path, {"content-type": content_type}, body)
        if answer.status < 300:
            return msgspec.json.decode(answer.body)
        raise _fault(f"{method} {path}", answer.status)


def _fault(
    request: str, status: int
) -> ConfigurationError | DependencyUnavailable | OpenSearchRefused:
    if status == 404:
        return NoSuchIndex(f"OpenSearch {request}: not found; knowledge_refresh makes the index.")
    if status in (401, 403):
        return ConfigurationError(
            f"OpenSearch {request}: {status}: check the role and the domain's access policy."
        )
    if status == 429 or status >= 500:
        return DependencyUnavailable(f"OpenSearch {request}: {status}")
    return OpenSearchRefused(f"OpenSearch {request}: {status}")
