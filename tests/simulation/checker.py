"""Holds a finished run against the promises of DESIGN §4; the monitor has already checked what is local to one step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clients.reducer import Turn
from shared.contracts.server_frames import ResponseFailed, decode_server_frame
from tests.simulation.clients import Seen
from tests.simulation.model import Call
from tests.simulation.monitor import TurnTruth, short_turn

if TYPE_CHECKING:
    from tests.simulation.clients import Client
    from tests.simulation.world import World

STOP_LIMIT_S = 2.0
GRACE_S = 15.0
SLACK_S = 0.5
"""Latencies and clock skew that come on top of a limit in calm weather."""
OURS = ("internal", "attempts_exhausted")


def check_opened_call(world: World, call: Call) -> None:
    """P5: the model is shown every answer before this turn, and no other."""
    session = call.message.split()[0]
    truth = _truth_of_text(world, session, call.message)
    if truth is None or truth.request.session in world.monitor.wounded_sessions:
        return
    expected = []
    for other in world.monitor.turns.values():
        if other.request.session != truth.request.session or other is truth:
            continue
        stored = world.monitor.stored.get(other.ref)
        if stored is not None and stored.status != "marker" and other.end is not None:
            expected.append((stored.user_text, stored.assistant_text))
    shown = list(call.history)
    if not _has_one_order(world, session):
        shown.sort()
        expected.sort()
    if shown != expected:
        world.history.violate(
            "P5", f"call {call.number} was shown {shown}, the answers are {expected}"
        )


def check_ended(world: World, truth: TurnTruth) -> None:
    """P6: a turn is given up for want of readers only when nobody has been reading it for the grace."""
    now_s = world.loop.time()
    if truth.code != "disconnect" or not world.weather.was_clear(now_s - GRACE_S - 8, now_s):
        return
    for client in world.clients.values():
        since_s = client.connected_since_s
        if since_s is None or now_s - since_s < GRACE_S:
            continue
        if any(turn.turn_id == truth.request.turn_id for turn in client.open_turns):
            name = short_turn(truth.request.turn_id)
            world.history.violate("P6", f"{name} was given up, but {client.name} reads it")


def check_takeovers(world: World) -> None:
    """P8: collects takeovers in calm weather, where workers had room."""
    has_skew = any(fault.kind == "skew" for fault in world.plan.faults)
    if has_skew or world.plan.sizes.slots < 4 or world.plan.environments < 2:
        return
    for died_s, claimed_s in world.monitor.takeovers:
        if world.weather.was_clear(died_s + 0.02, claimed_s):
            world.history.takeovers_s.append(claimed_s - died_s)


def check_calls(world: World) -> None:
    """P6: calls are closed within 2 s after a stop, and after the readers' grace."""
    for call in world.model.calls:
        session = call.message.split()[0]
        truth = _truth_of_text(world, session, call.message)
        if truth is None or truth.is_wounded:
            continue
        closed_at_s = world.loop.time() if call.closed_at_s is None else call.closed_at_s
        limits = [(truth.cancelled_at_s, "its user pressed stop")]
        for since_s, until_s in truth.readerless:
            grace_over_s = since_s + GRACE_S
            if until_s is None or until_s > grace_over_s + STOP_LIMIT_S + SLACK_S:
                limits.append((grace_over_s, "its readers had gone"))
        for from_s, why in limits:
            if from_s is None or closed_at_s <= from_s:
                continue
            late_s = closed_at_s - max(from_s, call.opened_at_s)
            if late_s > STOP_LIMIT_S + SLACK_S and _was_calm(world, call, from_s, closed_at_s):
                world.history.violate(
                    "P6", f"call {call.number} was open for {late_s:.2f} s after {why}"
                )


def check_end(world: World) -> None:
    """P1, P2, P3 and P9, from what clients, ledger, store and dead letters hold in the end."""
    for truth in world.monitor.turns.values():
        _check_turn(world, truth)
    for client in world.clients.values():
        if not client.has_left:
            for turn in client.state.turns:
                _check_shown(world, client, turn)


def _check_turn(world: World, truth: TurnTruth) -> None:
    name = short_turn(truth.request.turn_id)
    if truth.end is None and not (truth.may_take_hours or world.is_forgotten(truth.ref)):
        world.history.violate("P1", f"{name} never ended")
    if truth.is_wounded:
        return
    stored = world.store.items.get(truth.ref)
    is_answered = stored is not None and stored.status != "marker"
    if truth.end == "completed" and not (stored and stored.status == "completed"):
        world.history.violate("P3", f"{name} completed, but its answer is not stored")
    if truth.end in ("failed", "expired", "rejected") and is_answered:
        if _is_kept_as_not_stored(world, truth):
            return
        world.history.violate("P3", f"{name} ended {truth.end}, but an answer is stored")
    if stored is not None and is_answered and not _is_said(world, stored.assistant_text, truth):
        world.history.violate("P2", f"{name}: the stored text is of no single call")
    if truth.end == "failed":
        _check_evidence(world, truth)


def _is_kept_as_not_stored(world: World, truth: TurnTruth) -> bool:
    """True when nobody could ask the store for so long that the reader was told, and the answer is evidence.

    The put whose answer got lost may have been made all the same; the dead letter says that somebody must look.
    """
    return any(
        letter.turn is not None
        and letter.turn.turn_id == truth.request.turn_id
        and letter.klass == "not_stored"
        for letter in world.queues.letters
    )


def _check_evidence(world: World, truth: TurnTruth) -> None:
    frame = decode_server_frame(truth.outcome)
    assert isinstance(frame, ResponseFailed)
    if frame.code not in OURS:
        return
    turn_id = truth.request.turn_id
    kept = any(letter.turn and letter.turn.turn_id == turn_id for letter in world.queues.letters)
    moved = any(message.turn_id == turn_id for message in world.queues.moved)
    if not (kept or moved):
        world.history.violate(
            "P9", f"{short_turn(turn_id)} failed with {frame.code} and left no dead letter"
        )


def _check_shown(world: World, client: Client, turn: Turn) -> None:
    name = f"{client.name}: {turn.message_id}"
    if not turn.is_ended:
        if turn in world.open_turns(client):
            world.history.violate("P1", f"{name} never ended at its reader ({turn.status})")
        return
    truth = None if turn.turn_id is None else world.monitor.turns.get(turn.turn_id)
    if truth is None or truth.is_wounded or turn.status == "rejected":
        return
    seen = client.seen.get(truth.request.turn_id, Seen())
    if seen.fetches:
        world.history.violate("P2", f"{name} could not be rebuilt from its frames")
    if len({kind for kind, _, _ in seen.terminals}) > 1:
        world.history.violate("P1", f"{name} was told several ends: {seen.terminals}")
    if turn.text and not _is_said(world, turn.text, truth):
        world.history.violate("P2", f"{name} mixes texts: {turn.text!r}")
    if turn.status != truth.end:
        world.history.violate("P1", f"{name} shows {turn.status}, the turn ended {truth.end}")
    else:
        _check_kept(world, name, turn, truth)


def _check_kept(world: World, name: str, turn: Turn, truth: TurnTruth) -> None:
    """P3: what is stored is what was shown. A stop before any word, or while the store was away, keeps nothing."""
    stored = world.store.items.get(truth.ref)
    text = None if stored is None or stored.status == "marker" else stored.assistant_text
    is_kept = turn.status == "completed" or (turn.status == "cancelled" and text is not None)
    if is_kept and text != turn.text:
        world.history.violate("P3", f"{name} shows {turn.text!r}, stored is {text!r}")


def _is_said(world: World, text: str, truth: TurnTruth) -> bool:
    """True when one call of this turn said it, from its beginning."""
    return any(
        "".join(call.said).startswith(text)
        for call in world.model.calls
        if call.message == truth.request.text
    )


def _has_one_order(world: World, session: str) -> bool:
    """True when the session's turn ids sort as the ledger accepted them.

    Ids sort by the clock of the gateway that made them, those of one millisecond by chance; a detached turn takes
    its place when it is claimed.
    """
    turns = [
        truth
        for truth in world.monitor.turns.values()
        if truth.request.session.session_id == session
    ]
    ids = [truth.request.turn_id for truth in turns]
    return ids == sorted(ids) and not any(truth.is_outside for truth in turns)


def _truth_of_text(world: World, session: str, text: str) -> TurnTruth | None:
    found = None
    for truth in world.monitor.turns.values():
        if truth.request.session.session_id == session and truth.request.text == text:
            found = truth
    return found


def _was_calm(world: World, call: Call, from_s: float, to_s: float) -> bool:
    """True when neither the weather nor clocks nor a standstill of the process excuse a late stop."""
    if not world.weather.was_clear(from_s - 1, to_s + 1):
        return False
    if any(fault.kind == "skew" for fault in world.plan.faults):
        return False  # the grace begins by one process's clock and ends by another's
    return not any(begin < to_s and from_s < end for begin, end in call.process.stood_still)
