from __future__ import annotations

from services.gateway.session_quota import SessionQuota
from shared.contracts.identifiers import SessionId, SessionRef, TenantId, UserId


def session(name: str) -> SessionRef:
    return SessionRef(TenantId("t"), UserId("u"), SessionId(name))


def counted(quota: SessionQuota, name: str, *, is_limiting: bool) -> bool:
    """Whether one more message was admitted; it is counted then."""
    if not quota.admits(session(name)):
        return False
    quota.count(session(name), is_limiting=is_limiting)
    return True


def test_a_new_session_gets_five_turns_under_load_and_more_when_it_is_over() -> None:
    quota = SessionQuota()
    under_load = [counted(quota, "new", is_limiting=True) for _ in range(7)]
    assert under_load == [True] * 5 + [False] * 2
    assert quota.admits(session("other"))
    quota.count(session("new"), is_limiting=False)
    assert quota.admits(session("new"))


def test_asking_alone_uses_nothing_up() -> None:
    quota = SessionQuota()
    assert all(quota.admits(session("new")) for _ in range(20))


def test_a_session_from_before_the_load_is_not_limited() -> None:
    quota = SessionQuota()
    quota.count(session("old"), is_limiting=False)
    assert all(counted(quota, "old", is_limiting=True) for _ in range(20))


def test_only_so_many_sessions_are_remembered() -> None:
    quota = SessionQuota(sessions_limit=2)
    for name in ("a", "b", "c"):
        quota.count(session(name), is_limiting=False)
    for _ in range(5):
        quota.count(session("a"), is_limiting=True)
    assert not quota.admits(session("a"))
