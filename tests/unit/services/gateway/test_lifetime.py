"""When a connection has to end, seen from the machine that closes it."""

from __future__ import annotations

import pytest

from services.gateway.lifetime import RENEWAL_GRACE_MS
from services.gateway.session_io import (
    Close,
)
from tests.fakes.session_machine import (
    T0,
    accept,
    done,
    frame,
    new_session,
    waits,
    written,
)


@pytest.mark.case("B-25")
def test_a_connection_without_user_activity_closes_4408_whatever_it_pings() -> None:
    session = new_session()
    session.receive_text('{"type":"chat.history"}', T0 + 1_000)
    session.receive_text('{"type":"ping"}', T0 + 200_000)
    session.receive_text("{", T0 + 200_000)
    assert session.lifetime.last_active_at_ms == T0 + 1_000
    assert session.due_at_ms == T0 + 301_000
    assert session.tick(T0 + 300_999, waits(0)) == []
    assert session.tick(T0 + 301_000, waits(0)) == [Close(4408, "idle")]


@pytest.mark.case("B-35")
def test_neither_idleness_nor_age_closes_in_mid_answer() -> None:
    session = new_session()
    accept(session)
    session.push(frame(0), T0 + 7_000_000)
    assert session.tick(T0 + 7_000_000, waits(0)) == []


@pytest.mark.case("B-35")
def test_an_aged_connection_is_asked_to_renew_and_closed_after_a_grace() -> None:
    session = new_session()
    aged_ms = T0 + 6_600_000
    session.receive_text('{"type":"chat.history"}', aged_ms - 1)
    (goaway,) = written(session.tick(aged_ms, waits(0)))
    assert goaway == {"type": "session.goaway", "reason": "max_age", "reconnect_after_ms": 0}
    assert session.due_at_ms == aged_ms + RENEWAL_GRACE_MS
    assert session.tick(aged_ms + RENEWAL_GRACE_MS - 1, waits(0)) == []
    assert session.tick(aged_ms + RENEWAL_GRACE_MS, waits(0)) == [Close(1001, "max_age")]


def test_an_expired_token_closes_4401_even_in_mid_answer() -> None:
    session = new_session(expires_at_ms=T0 + 60_000)
    accept(session)
    assert session.due_at_ms == T0 + 60_000
    session.push(frame(0), T0 + 59_000)
    assert session.tick(T0 + 59_999, waits(0)) == []
    assert session.tick(T0 + 60_000, waits(0)) == [Close(4401, "token expired")]


def test_a_draining_connection_stays_until_its_time_and_its_turns_are_over() -> None:
    session = new_session()
    accept(session)
    (goaway,) = written(session.drain(T0, 10_000))
    assert (goaway["reason"], goaway["reconnect_after_ms"]) == ("drain", 10_000)
    assert session.drain(T0, 5) == []
    session.push(frame(0), T0 + 10_000)
    assert session.tick(T0 + 10_000, waits(0)) == []
    session.push(done(1), T0 + 11_000)
    assert session.tick(T0 + 11_000, waits(0)) == [Close(1001, "drain")]


def test_an_idle_connection_of_a_draining_process_stays_until_its_time() -> None:
    session = new_session()
    session.drain(T0, 10_000)
    assert session.due_at_ms == T0 + 10_000
    assert session.tick(T0 + 9_999, waits(0)) == []
    assert session.tick(T0 + 10_000, waits(0)) == [Close(1001, "drain")]
