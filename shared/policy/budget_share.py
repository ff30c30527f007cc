"""What a process may spend of the model budget while nobody can be asked: a careful part, spread over time."""

from __future__ import annotations

import msgspec

SHARE = 0.5
"""Of what would be this process's even part: others may have started that it has never heard of."""
UNSEEN_WORKERS = 16
"""Taken for the number of processes by one that has never reached the ledger."""
_MINUTE_MS = 60_000


class LocalShare(msgspec.Struct, frozen=True, kw_only=True):
    """Credit of one process, None = without limit; it grows with time, up to `ceiling` of each kind."""

    requests: float | None
    tokens: float | None
    requests_ceiling: float
    tokens_ceiling: float
    at_ms: float


def open_share(
    requests_per_min: int, tokens_per_min: int, workers: int, now_ms: float
) -> LocalShare:
    """Nothing yet; a limit of 0 is none. `workers` 0 = unknown."""
    part = SHARE / (workers or UNSEEN_WORKERS)
    return LocalShare(
        requests=0.0 if requests_per_min else None,
        tokens=0.0 if tokens_per_min else None,
        requests_ceiling=requests_per_min * part,
        tokens_ceiling=tokens_per_min * part,
        at_ms=now_ms,
    )


def grown(share: LocalShare, now_ms: float) -> LocalShare:
    """The credit at `now_ms`. A minute brings one ceiling."""
    minutes = max(0.0, now_ms - share.at_ms) / _MINUTE_MS
    return msgspec.structs.replace(
        share,
        requests=_grown(share.requests, share.requests_ceiling, minutes, 1.0),
        tokens=_grown(share.tokens, share.tokens_ceiling, minutes, 0.0),
        at_ms=now_ms,
    )


def spend(share: LocalShare, tokens: int) -> LocalShare | None:
    """The credit after one call, None when it does not suffice. A call above the ceiling takes a whole one."""
    requests_left = None if share.requests is None else share.requests - 1
    tokens_left = None if share.tokens is None else share.tokens - min(tokens, share.tokens_ceiling)
    if (requests_left or 0) < 0 or (tokens_left or 0) < 0:
        return None
    return msgspec.structs.replace(share, requests=requests_left, tokens=tokens_left)


def _grown(credit: float | None, ceiling: float, minutes: float, least: float) -> float | None:
    # Less than one request a minute still adds up to one.
    return None if credit is None else min(max(ceiling, least), credit + ceiling * minutes)
