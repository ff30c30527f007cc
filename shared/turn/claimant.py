"""Becoming the producer of a turn."""

from __future__ import annotations

from shared.clock import Clock, Randomness
from shared.contracts.identifiers import ClaimNonce
from shared.contracts.ledger import ClaimAnswer
from shared.contracts.turns import Path, TurnRequest
from shared.ports import TurnClaims
from shared.turn.patience import Patience

_NONCE_BYTES = 12
_FIRST_WAIT_MS = 100
_LONGEST_WAIT_MS = 1_000


class Claimant:
    """Claims turns in the name of one process."""

    def __init__(
        self,
        claims: TurnClaims,
        clock: Clock,
        randomness: Randomness,
        *,
        worker: str,
        grace_ms: int,
    ) -> None:
        self._claims = claims
        self._clock = clock
        self._randomness = randomness
        self._patience = Patience(
            work="claim",
            clock=clock,
            randomness=randomness,
            first_wait_ms=_FIRST_WAIT_MS,
            longest_wait_ms=_LONGEST_WAIT_MS,
        )
        self._worker = worker
        self._grace_ms = grace_ms

    async def claim(self, request: TurnRequest, path: Path, *, patience_ms: int) -> ClaimAnswer:
        """Ask for the turn, again and again while the ledger cannot be asked, for about `patience_ms`.

        Every try carries the same nonce, so that a claim whose answer got lost is recognised as our own.
        Raises DependencyUnavailable when the patience is used up.
        """
        nonce = ClaimNonce(self._randomness.token_bytes(_NONCE_BYTES).hex())

        async def ask() -> ClaimAnswer:
            return await self._claims.claim(
                request,
                nonce=nonce,
                worker=self._worker,
                path=path,
                grace_ms=self._grace_ms,
                now_ms=self._clock.now_ms(),
            )

        return await self._patience.until_done(ask, limit_ms=patience_ms)
