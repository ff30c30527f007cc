"""Asking a process whether it is well."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable

from infra.local.errors import StackError
from infra.local.plan import HOST
from shared.clock import SystemClock

_TIMEOUT_S = 2.0
_POLL_S = 0.05
_clock = SystemClock()


def is_healthy(port: int, health_path: str) -> bool:
    """One question: HTTP 200 from `health_path`, or a PONG from Valkey when there is none."""
    return _answers_http(port, health_path) if health_path else _answers_ping(port)


def wait_healthy(
    name: str, port: int, health_path: str, *, within_s: float, check_alive: Callable[[], None]
) -> None:
    """Poll until well. `check_alive` raises when waiting has become pointless.

    Raises StackError after `within_s` seconds.
    """
    deadline = _clock.monotonic_s() + within_s
    while not is_healthy(port, health_path):
        check_alive()
        if _clock.monotonic_s() > deadline:
            raise StackError(
                f"{name} is not ready after {within_s:.0f} s: {_reason(port, health_path)}"
            )
        time.sleep(_POLL_S)


def wait_until(condition: Callable[[], bool], *, within_s: float, what: str) -> None:
    """Poll until the condition holds; raises StackError after `within_s` seconds."""
    deadline = _clock.monotonic_s() + within_s
    while not condition():
        if _clock.monotonic_s() > deadline:
            raise StackError(f"{what} is not ready after {within_s:.0f} s")
        time.sleep(_POLL_S)


def _answers_http(port: int, path: str) -> bool:
    status, _ = _get(port, path)
    return status == http.client.OK


def _reason(port: int, path: str) -> str:
    status, body = _get(port, path) if path else (0, "")
    return f"port {port} does not answer" if status == 0 else f"HTTP {status} {body}"


def _get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read(2_000).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


def _answers_ping(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=_TIMEOUT_S) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
