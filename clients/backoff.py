"""How long to wait before the next connection, and when not to connect again. Pure."""

from __future__ import annotations

FIRST_DELAY_MS = 500
LONGEST_DELAY_MS = 30_000

STOPPING_CLOSES = {
    1000: "the server ended the session",
    4000: "the session was opened elsewhere",
    4400: "the server understood too few of this client's frames",
    4401: "the token has expired; sign in again",
    4429: "this user has too many connections open",
}
"""Close codes that the same attempt would meet again, in words for people."""

IDLE = 4408
FRAME_TOO_LARGE = 1009


def full_jitter_ms(failures: int, chance: float) -> int:
    """A delay in [0, min(30 s, 0.5 s times 2 to the failures)); `chance` is uniform in [0, 1)."""
    ceiling_ms = min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** min(failures, 16))
    return int(chance * ceiling_ms)
