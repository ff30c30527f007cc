"""Run the model server: `python -m infra.local.model_server --port 8083`."""

from __future__ import annotations

import argparse
import asyncio
import signal

import uvloop
from aiohttp import web

from infra.local.model_server.planning import Pace
from infra.local.model_server.server import ModelServer
from shared.clock import SystemClock


def main() -> None:
    """Parse arguments and serve until SIGTERM or SIGINT."""
    pace = Pace()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8083)
    parser.add_argument("--ttft-ms", type=int, default=pace.ttft_ms, help="unscripted answers")
    parser.add_argument("--tokens-per-s", type=float, default=pace.tokens_per_s, help="0 = at once")
    options = parser.parse_args()
    uvloop.run(_serve(options.host, options.port, Pace(options.ttft_ms, options.tokens_per_s)))


async def _serve(host: str, port: int, pace: Pace) -> None:
    server = ModelServer(now_ms=SystemClock().now_ms, pace=pace)
    runner = web.AppRunner(
        server.application(), handler_cancellation=True, access_log=None, shutdown_timeout=0.5
    )
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=2048).start()
    print(f"model server on http://{host}:{port}", flush=True)
    stopped = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stopped.set)
    await stopped.wait()
    await runner.cleanup()


if __name__ == "__main__":
    main()
