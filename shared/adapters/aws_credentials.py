"""The credentials of AWS's default chain: environment, task role, function role, profile."""

from __future__ import annotations

import asyncio
from typing import Any

from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.sigv4 import Credential


class AwsCredentials:
    """Temporary credentials are renewed before they end. Found at the first use, off the event loop."""

    def __init__(self, region: str, *, fixed: Credential | None = None) -> None:
        self.region = region
        self._fixed = fixed
        self._source: Any = None  # botocore's Credentials or a refreshing subclass
        self._current: Credential | None = fixed
        self._lock = asyncio.Lock()

    async def current(self) -> Credential:
        """The credential to sign with now.

        Raises ConfigurationError when the chain finds none and DependencyUnavailable when renewal failed.
        """
        if self._current is not None and not self._is_due():
            return self._current
        async with self._lock:
            if self._current is None or self._is_due():
                self._current = await asyncio.to_thread(self._read)
            return self._current

    def forget(self) -> None:
        """Read the chain again before the next signature: AWS called the present credential invalid."""
        if self._fixed is None:
            self._source = self._current = None

    def _is_due(self) -> bool:
        refresh_needed = getattr(self._source, "refresh_needed", None)
        return bool(refresh_needed and refresh_needed())

    def _read(self) -> Credential:
        import botocore.exceptions
        import botocore.session

        try:
            if self._source is None:
                self._source = botocore.session.Session().get_credentials()
            keys = self._source.get_frozen_credentials() if self._source else None
        except botocore.exceptions.BotoCoreError as error:
            raise DependencyUnavailable(f"AWS credentials: {type(error).__name__}") from error
        if keys is None or not keys.access_key:
            raise ConfigurationError(
                "No AWS credentials: give the task or function a role, or set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY."
            )
        return Credential(keys.access_key, keys.secret_key, self.region, keys.token)
