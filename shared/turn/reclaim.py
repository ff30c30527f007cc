"""Claiming anew a turn that the ledger lost while its answer was being written."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import msgspec

from shared.contracts.ledger import Claimed, ClaimRefusal, ClaimRefused
from shared.telemetry import Log
from shared.turn.claimant import Claimant
from shared.turn.writer import Stop, TurnWriter

_log = Log("reclaim")


async def reclaim(claimant: Claimant, writer: TurnWriter, monotonic_s: Callable[[], float]) -> bool:
    """One try; True when the turn is ours again. The new claim is above the old; a refusal interrupts the writer.

    Raises DependencyUnavailable when the ledger cannot be asked; the writer stays lost then.
    """
    request = msgspec.structs.replace(writer.request, attempt_hint=writer.claim.attempt)
    answer = await claimant.claim(request, writer.path, patience_ms=0)
    match answer:
        case Claimed():
            writer.rebase(answer, monotonic_s())
            _log.warning("turn.reclaimed", attempt=writer.claim.attempt)
            return True
        case ClaimRefused(reason):
            writer.is_lost = False
            readerless = reason is ClaimRefusal.READERLESS
            writer.stop(Stop.READERLESS if readerless else Stop.FENCED)
            _log.warning("turn.not_reclaimed", reason=reason.value)
            return False
        case _:
            assert_never(answer)
