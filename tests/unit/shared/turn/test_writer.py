"""Text in, frozen frames out, whatever the ledger answers."""

from __future__ import annotations

import msgspec

from shared.contracts.identifiers import ClaimNonce
from shared.contracts.ledger import Claimed, ClaimRef, Follower, Held, LogGap
from shared.contracts.server_frames import decode_server_frame
from shared.turn.writer import Stop, TurnWriter
from tests.fakes.turn_world import TurnWorld, follower


class Gone:
    def __init__(self) -> None:
        self.followers: list[Follower] = []
        self.wakes = 0

    def wake(self) -> None:
        self.wakes += 1

    def gone(self, writer: TurnWriter, one: Follower) -> None:
        self.followers.append(one)


async def open_writer(heard: Gone | None = None) -> tuple[TurnWriter, Claimed]:
    world = TurnWorld()
    request = await world.accept()
    claimed = await world.ledger.claim(
        request, nonce=ClaimNonce("n"), worker="w", path="inline", grace_ms=1, now_ms=1
    )
    assert isinstance(claimed, Claimed)
    heard = heard or Gone()
    writer = TurnWriter(claimed, "inline", now_s=0, wake=heard.wake, gone=heard.gone)
    return writer, claimed


def log(writer: TurnWriter) -> list[bytes]:
    """Everything is appended."""
    append = writer.unlogged()
    writer.take(Held(writer.followers, False, 0), appended=append, now_s=1)
    return writer.unpushed()


async def test_frames_are_pushed_once_and_only_when_logged() -> None:
    writer, _ = await open_writer()
    writer.start("inline", "general", "m")
    writer.start("inline", "other", "m")
    writer.write("a")
    writer.cut(1)
    assert writer.unpushed() == []
    assert len(log(writer)) == 2
    assert writer.unpushed() == []

    writer.take(LogGap(0), appended=None, now_s=1)
    assert writer.unlogged().first_seq == 1
    assert log(writer) == []


async def test_a_new_claim_says_everything_again_under_its_number() -> None:
    writer, claimed = await open_writer()
    writer.start("inline", "general", "m")
    writer.write("one")
    writer.cut(1)
    log(writer)
    writer.write(" two")
    late = writer.unlogged()

    again = msgspec.structs.replace(
        claimed, ref=ClaimRef(claimed.ref.turn, 2, ClaimNonce("m")), followers=(follower("new"),)
    )
    writer.rebase(again, now_s=2)
    writer.take(Held((), False, 0), appended=late, now_s=3)  # about the old claim
    assert writer.logged == 0
    writer.cut(3)
    frames = [decode_server_frame(data) for data in log(writer)]

    assert [(frame.attempt, frame.seq) for frame in frames] == [  # type: ignore[union-attr]
        (2, 0),
        (2, 1),
        (2, 2),
    ]
    assert writer.claim.attempt == 2


async def test_a_connection_that_is_gone_stays_gone() -> None:
    heard = Gone()
    writer, _ = await open_writer(heard)
    writer.connection_gone(follower())
    writer.take(Held((follower(), follower("c2")), False, 0), appended=None, now_s=1)

    assert writer.followers == (follower("c2"),)
    assert heard.followers == [follower()]


async def test_the_first_reason_to_stop_counts_but_fencing_overrules() -> None:
    writer, _ = await open_writer()
    writer.stop(Stop.READERLESS)
    writer.stop(Stop.CANCELLED)
    assert writer.stop_reason is Stop.READERLESS
    writer.stop(Stop.FENCED)

    assert writer.stop_reason is Stop.FENCED
    assert writer.interruption.interrupted


async def test_only_the_first_text_hurries() -> None:
    heard = Gone()
    writer, _ = await open_writer(heard)
    writer.write("a")
    writer.write("b")

    assert heard.wakes == 1
