"""What the stack itself knows at the end: ledger, table, model server, logs of its workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import redis

from infra.local.state import StackState, StateFile
from tests.harness.stack import Stack

UNENDED = ("waiting", "running")


@dataclass(frozen=True)
class LedgerTurn:
    """A turn's hash (docs/data.md); times in epoch ms, `claimed_at_ms` of the newest attempt."""

    turn_id: str
    message_id: str
    status: str
    attempt: int
    worker: str
    claimed_at_ms: int
    placed: str


class Inside:
    """Reads one running stack."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._ledger = redis.Redis(
            host="127.0.0.1", port=stack.port_base + 5, decode_responses=True, socket_timeout=10
        )

    @property
    def state(self) -> StackState:
        """`stack.json`."""
        state = StateFile(self._stack.state_dir).read()
        assert state is not None, "the stack is gone"
        return state

    def close(self) -> None:
        """Close the connections to the ledger."""
        self._ledger.close()

    def ledger_turns(self) -> dict[str, LedgerTurn]:
        """Every turn that the ledger knows, by id."""
        keys = list(self._ledger.scan_iter(match="bc:*:turn:*", count=1000))
        pipeline = self._ledger.pipeline(transaction=False)
        names = ("message", "status", "attempt", "worker", "claimed_at", "placed")
        for key in keys:
            pipeline.hmget(key, *names)
        turns = {}
        for key, found in zip(keys, pipeline.execute(), strict=True):
            turn_id = key.partition(":turn:")[2]
            message, status, attempt, worker, claimed_at, placed = found
            turns[turn_id] = LedgerTurn(
                turn_id, message, status, int(attempt), worker or "", int(claimed_at or 0), placed
            )
        return turns

    def unended(self) -> list[LedgerTurn]:
        """Those that still wait or run."""
        return [turn for turn in self.ledger_turns().values() if turn.status in UNENDED]

    def stored(self) -> dict[str, list[dict[str, Any]]]:
        """The items of the `turns` table by turn id."""
        items: dict[str, list[dict[str, Any]]] = {}
        pages = self._stack.aws("dynamodb").get_paginator("scan")
        for page in pages.paginate(TableName=self.state.tables["turns"], ConsistentRead=True):
            for item in page["Items"]:
                items.setdefault(item["sk"]["S"], []).append(json.loads(item["turn"]["S"]))
        return items

    def workers_opened_at_ms(self) -> dict[str, int]:
        """When each process that can claim turns was ready, by its name in claims."""
        opened = {}
        for line in self._worker_lines():
            if line.get("event") in ("orchestrator.ready", "worker.opened"):
                opened[line["worker"]] = line["at_ms"]
        return opened

    def orchestrators(self) -> dict[int, str]:
        """The name in claims of each orchestrator as it runs now, by its index."""
        return {
            int(line["log"].partition("-")[2]): line["worker"]
            for line in self._worker_lines()
            if line.get("event") == "orchestrator.ready"
        }

    def function_workers(self) -> dict[str, set[str]]:
        """The processes of the worker function that were given a turn, claimed or not, by turn id."""
        given: dict[str, set[str]] = {}
        for line in self._worker_lines():
            if line["log"].startswith("aws_emulator") and "turn_id" in line and "worker" in line:
                given.setdefault(line["turn_id"], set()).add(line["worker"])
        return given

    def _worker_lines(self) -> Iterator[dict[str, Any]]:
        for path in sorted((self._stack.state_dir / "logs").glob("*.log")):
            for line in path.read_text(errors="replace").splitlines():
                if line.startswith('{"at_ms"'):
                    yield {**json.loads(line), "log": path.stem}
