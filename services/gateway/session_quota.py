"""How many turns a new session gets while the fleet is under load. Pure."""

from __future__ import annotations

from collections import OrderedDict

from shared.contracts.identifiers import SessionRef

TURNS_OF_A_NEW_SESSION = 5
_SESSIONS_LIMIT = 20_000
_ESTABLISHED = -1


class SessionQuota:
    """Sessions that had a turn before the load came are established and not limited.

    What is known is this process's own and bounded, so a session that comes from another gateway counts as new.
    """

    def __init__(self, sessions_limit: int = _SESSIONS_LIMIT) -> None:
        self._sessions_limit = sessions_limit
        self._turns: OrderedDict[SessionRef, int] = OrderedDict()

    def admits(self, session: SessionRef) -> bool:
        """False when the session has used up what a new one gets under load."""
        return self._turns.get(session, 0) < TURNS_OF_A_NEW_SESSION

    def count(self, session: SessionRef, *, is_limiting: bool) -> None:
        """The session got a turn; without load that makes it an established one."""
        turns = self._turns.get(session, 0)
        if not is_limiting:
            turns = _ESTABLISHED
        elif turns != _ESTABLISHED:
            turns += 1
        self._turns[session] = turns
        self._turns.move_to_end(session)
        if len(self._turns) > self._sessions_limit:
            self._turns.popitem(last=False)
