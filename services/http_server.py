"""An ASGI app on one port, as a part of a process (see lifecycle)."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn

from services.http_protocol import HttpProtocol
from shared.errors import ConfigurationError

# Above the load balancer's idle time-out (120 s): the side that closes an idle connection first must be the one
# that opens requests on it, else a request meets a closed socket.
KEEP_ALIVE_S = 130
CLOSE_LIMIT_S = 2
BACKLOG = 2_048


def listen(host: str, port: int, setting: str) -> socket.socket:
    """Bind a port (0 = any free one); `setting` is the variable that chose it.

    Raises ConfigurationError naming that variable when the port is taken or the address is not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Clients wait in the backlog until the server serves, rather than being refused.
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigurationError(_explain(error, host, port, setting)) from error
    listener.setblocking(False)
    return listener


class HttpServer:
    """Serves an app on a bound socket until cancelled; then open requests have CLOSE_LIMIT_S to end.

    Drain before you cancel: what is open after the limit is cut. `options` are uvicorn's own.
    """

    def __init__(
        self,
        name: str,
        app: Any,
        listener: socket.socket,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._name = name
        self._listener = listener
        chosen = dict(options or {})
        self._server = _Server(
            uvicorn.Config(
                app,
                http=chosen.pop("http", HttpProtocol),
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=CLOSE_LIMIT_S,
                backlog=BACKLOG,
                **chosen,
            )
        )

    @property
    def name(self) -> str:
        """For the logs."""
        return self._name

    @property
    def port(self) -> int:
        """The port that was bound, also when any free one was asked for."""
        port: int = self._listener.getsockname()[1]
        return port

    async def run(self) -> None:
        """Serve until cancelled."""
        serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        try:
            await asyncio.shield(serving)
        finally:
            self._server.should_exit = True
            await serving


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals belong to the process (lifecycle): uvicorn would close live sockets before the drain."""
        yield


def _explain(error: OSError, host: str, port: int, setting: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{setting}={port}: another process listens on {host}:{port} already."
    if error.errno == errno.EACCES:
        return f"{setting}={port}: this user may not listen on port {port}."
    return f"{setting}={port}: cannot listen on {host}:{port} ({error.strerror})."
