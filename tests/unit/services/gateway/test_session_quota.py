from __future__ import annotations

from services.gateway.session_quota import SessionQuota
from shared.contracts.identifiers import SessionId, SessionRef, TenantId, UserId


def session(name: str) -> SessionRef:
    return SessionRef(TenantId("t"), UserId("u"), SessionId(name))


def test_a_new_session_gets_five_turns_under_load_and_more_when_it_is_over() -> None:
    quota = SessionQuota()
    under_load = [quota.admits(session("new"), is_limiting=True) for _ in range(7)]
    assert under_load == [True] * 5 + [False] * 2
    assert quota.admits(session("other"), is_limiting=True)
    assert quota.admits(session("new"), is_limiting=False)


def test_a_session_from_before_the_load_is_not_limited() -> None:
    quota = SessionQuota()
    quota.admits(session("old"), is_limiting=False)
    assert all(quota.admits(session("old"), is_limiting=True) for _ in range(20))


def test_only_so_many_sessions_are_remembered() -> None:
    quota = SessionQuota(sessions_limit=2)
    for name in ("a", "b", "c"):
        quota.admits(session(name), is_limiting=False)
    for _ in range(5):
        quota.admits(session("a"), is_limiting=True)
    assert not quota.admits(session("a"), is_limiting=True)
