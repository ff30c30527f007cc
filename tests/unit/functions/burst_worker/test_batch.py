import asyncio
import io
import json
import logging

import pytest

from functions.burst_worker.batch import BEGIN_NEEDS_MS, HAND_OVER_NEEDS_MS, TurnBatch
from functions.burst_worker.messages import read_messages
from functions.sqs_batch import batch_answer
from shared.telemetry import Metrics, configure_logging
from shared.turn.result import TurnResult
from tests.fakes.clock import FakeClock, settle

ENDED = TurnResult(outcome="ended", status="completed", attempt=1)
PLENTY_MS = 75_000


class Pipeline:
    """Answers per session; an unknown one ends its turn."""

    def __init__(self, **results) -> None:
        self.results = results
        self.begun: list[str] = []
        self.cut: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, request, give_up) -> TurnResult:
        self.begun.append(request.session_id)
        await asyncio.sleep(0)
        async with give_up:
            await self.gate.wait()
        if give_up.interrupted:
            self.cut.append(request.session_id)
            return TurnResult(outcome="retry_later", attempt=3)
        result = self.results.get(request.session_id, ENDED)
        if isinstance(result, Exception):
            raise result
        return result


def batch(pipeline: Pipeline, outlet, clock: FakeClock | None = None) -> TurnBatch:
    clock = clock or FakeClock()
    return TurnBatch(
        run=pipeline.run,
        queue=outlet.queue,
        inbox=outlet.inbox,
        dead_letters=outlet.dead_letters,
        clock=clock,
        metrics=Metrics("burstchat", "burst_worker", clock, io.StringIO()),
    )


async def returned(pipeline, outlet, event, remaining_ms=PLENTY_MS, clock=None) -> list[str]:
    messages = read_messages(event, "burstchat-retry")
    answer = batch_answer(await batch(pipeline, outlet, clock).run(messages, remaining_ms))
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


async def test_a_batch_in_which_all_ended_returns_nothing(outlet, event):
    assert await returned(Pipeline(), outlet, event()) == []


async def test_turns_of_a_batch_run_side_by_side(outlet, event):
    pipeline = Pipeline()
    pipeline.gate.clear()
    running = asyncio.create_task(returned(pipeline, outlet, event()))
    await settle()
    assert pipeline.begun == ["s1", "s2", "s3"]
    pipeline.gate.set()
    assert await running == []


@pytest.mark.parametrize("outcome", ["refused", "superseded"])
@pytest.mark.case("B-03")
async def test_a_refused_claim_is_acknowledged(outlet, event, outcome):
    assert await returned(Pipeline(s2=TurnResult(outcome=outcome)), outlet, event()) == []


@pytest.mark.case("B-04")
async def test_only_the_turn_that_could_not_be_settled_comes_back(outlet, event):
    pipeline = Pipeline(s2=TurnResult(outcome="not_settled"))
    assert await returned(pipeline, outlet, event()) == ["2e1424d4-f796-459a-8184-9c92662be6da"]


@pytest.mark.case("B-27")
async def test_a_bug_in_one_turn_harms_no_neighbour(outlet, event):
    assert await returned(Pipeline(s1=KeyError("x")), outlet, event()) == [
        "059f36b4-87a3-44ab-83d2-661975830a7d"
    ]


@pytest.mark.case("B-28")
async def test_a_batch_in_which_everything_failed_is_answered_the_same_cold_and_warm(outlet, event):
    lone = event()
    del lone["Records"][1:]
    pipeline = Pipeline(s1=TurnResult(outcome="not_settled"))
    cold = await returned(pipeline, outlet, lone)
    warm = await returned(pipeline, outlet, lone)
    assert cold == warm == ["059f36b4-87a3-44ab-83d2-661975830a7d"]


async def test_a_retry_leaves_the_function_for_the_retry_queue(outlet, event):
    pipeline = Pipeline(s1=TurnResult(outcome="retry_later", attempt=2, delay_ms=4_200))
    assert await returned(pipeline, outlet, event()) == []
    ((queue, request, delay_s),) = outlet.queue.sent
    assert (queue, request.session_id, request.attempt_hint, delay_s) == ("retry", "s1", 2, 5)


async def test_a_hand_over_that_fails_returns_the_message(outlet, event):
    outlet.break_down()
    pipeline = Pipeline(s1=TurnResult(outcome="retry_later", attempt=2, delay_ms=4_200))
    assert await returned(pipeline, outlet, event()) == ["059f36b4-87a3-44ab-83d2-661975830a7d"]


async def test_a_message_whose_hand_over_failed_comes_back_when_its_turn_wants_to_run(
    outlet, event
):
    outlet.break_down()
    pipeline = Pipeline(
        s1=TurnResult(outcome="retry_later", attempt=2, delay_ms=4_200),
        s2=TurnResult(outcome="not_settled"),
    )
    assert len(await returned(pipeline, outlet, event())) == 2
    assert outlet.inbox.hidden == [("059f36b4-87a3-44ab-83d2-661975830a7d", 5)]


async def test_a_message_that_cannot_be_hidden_comes_back_all_the_same(outlet, event):
    outlet.break_down()
    outlet.inbox.unavailable = True
    pipeline = Pipeline(s1=TurnResult(outcome="retry_later", attempt=2, delay_ms=4_200))
    assert await returned(pipeline, outlet, event()) == ["059f36b4-87a3-44ab-83d2-661975830a7d"]


async def test_with_little_time_left_no_turn_is_begun(outlet, event):
    pipeline = Pipeline()
    assert await returned(pipeline, outlet, event(), BEGIN_NEEDS_MS - 1) == []
    assert pipeline.begun == []
    assert [(queue, turn.attempt_hint) for queue, turn, _ in outlet.queue.sent] == [
        ("retry", 0)
    ] * 3


async def test_with_little_time_left_and_no_queue_every_id_comes_back(outlet, event):
    outlet.break_down()
    assert len(await returned(Pipeline(), outlet, event(), BEGIN_NEEDS_MS - 1)) == 3


async def test_a_turn_that_outlasts_the_function_is_handed_over_before_the_platform_kills_it(
    outlet, event
):
    clock, pipeline = FakeClock(), Pipeline()
    pipeline.gate.clear()
    running = asyncio.create_task(returned(pipeline, outlet, event(), PLENTY_MS, clock))
    await clock.advance((PLENTY_MS - HAND_OVER_NEEDS_MS) / 1000 - 0.1)
    assert pipeline.cut == []
    await clock.advance(0.2)
    assert await running == []
    assert pipeline.cut == ["s1", "s2", "s3"]
    sent = [(queue, turn.attempt_hint, delay_s) for queue, turn, delay_s in outlet.queue.sent]
    assert sent == [("retry", 3, 0)] * 3
    assert {turn.reason for _, turn, _ in outlet.queue.sent} == {"function_limit"}


async def test_a_turn_that_ended_at_the_last_moment_is_not_handed_over(outlet, event):
    """It was told to give up while its end was being written."""
    clock = FakeClock()

    async def run(request, give_up) -> TurnResult:
        await clock.sleep(PLENTY_MS)
        return ENDED

    pipeline = Pipeline()
    pipeline.run = run
    running = asyncio.create_task(returned(pipeline, outlet, event(), PLENTY_MS, clock))
    await clock.advance(PLENTY_MS + 1)
    assert await running == []
    assert outlet.queue.sent == []


@pytest.mark.case("B-29")
async def test_a_malformed_body_becomes_a_dead_letter_with_the_raw_body(outlet, event):
    assert await returned(Pipeline(), outlet, event("sqs_malformed")) == []
    ((queue, letter),) = outlet.dead_letters.letters
    assert queue == "retry"
    assert (letter.klass, letter.turn, letter.raw) == ("malformed", None, '{"schema":1,"text":')
    assert letter.error.type == "MalformedMessage"
    assert letter.raw not in letter.error.message


async def test_a_turn_of_an_unknown_schema_becomes_a_dead_letter(outlet, event):
    unknown = event()
    unknown["Records"][0]["body"] = unknown["Records"][0]["body"].replace(
        '"schema":1', '"schema":9'
    )
    assert await returned(Pipeline(), outlet, unknown) == []
    assert [letter.error.type for _, letter in outlet.dead_letters.letters] == ["UnsupportedTurn"]


async def test_a_malformed_body_that_cannot_be_kept_comes_back(outlet, event):
    outlet.break_down()
    assert await returned(Pipeline(), outlet, event("sqs_malformed")) == [
        "c3f1a5e2-1111-4c1c-9d2e-aaaaaaaaaaaa"
    ]


@pytest.mark.parametrize("body", ["", "null", "[1]", '"\ud800"', "[" * 60_000])
async def test_whatever_a_body_holds_it_is_kept_and_acknowledged(outlet, event, body):
    strange = event("sqs_malformed")
    strange["Records"][0]["body"] = body
    assert await returned(Pipeline(), outlet, strange) == []
    assert len(outlet.dead_letters.letters) == 1


@pytest.mark.case("B-37")
async def test_log_lines_carry_the_ids_of_their_own_turn_and_no_text(outlet, event):
    stream = io.StringIO()
    loggers = logging.getLogger(), logging.getLogger("burstchat")
    before = loggers[0].handlers[:], loggers[0].level, loggers[1].level
    configure_logging("burst_worker", "info", FakeClock(), stream)
    try:
        await returned(Pipeline(s1=KeyError("Which volume")), outlet, event())
        await returned(Pipeline(), outlet, event("sqs_malformed"))
    finally:
        loggers[0].handlers[:] = before[0]
        loggers[0].setLevel(before[1])
        loggers[1].setLevel(before[2])
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    ended = [line for line in lines if line["event"] == "turn.settled"]
    assert [line["session_id"] for line in ended] == ["s2", "s3"]
    (malformed,) = [line for line in lines if line["event"] == "message.malformed"]
    assert "turn_id" not in malformed
    assert "Which volume" not in stream.getvalue()
    assert "schema" not in stream.getvalue()
