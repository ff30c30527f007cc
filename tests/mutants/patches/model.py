"""The language model: its stream, its errors, its limits."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ERRORS = "shared/adapters/anthropic_errors.py"
_MODEL = "shared/adapters/anthropic_model.py"
_MODEL_TEST = "tests/unit/shared/adapters/test_anthropic_model.py"
_REPLY = "shared/turn/reply.py"
_REPLY_TEST = "tests/unit/shared/turn/test_reply.py"
_PIPELINE_TEST = "tests/unit/shared/turn/test_pipeline.py"

MUTANTS = (
    Mutant(
        "B-01",
        "an error in mid-stream is classified by its status",
        _ERRORS,
        'kind = _BY_TYPE.get(type_ or "") or _BY_STATUS.get(status)',
        "kind = _BY_STATUS.get(status)",
        f"{_MODEL_TEST}::test_error_events_are_classified_by_type_after_the_text_before_them",
    ),
    Mutant(
        "B-02",
        "the transport's own errors are in nobody's list",
        _ERRORS,
        "    httpx2.HTTPError,\n    httpx2.StreamError,\n    aiohttp.ClientError,\n",
        "",
        "tests/unit/shared/adapters/test_anthropic_errors.py"
        "::test_every_broken_exchange_has_a_name",
    ),
    Mutant(
        "B-23",
        "the SDK retries beneath us",
        _MODEL,
        "max_retries=0,",
        "max_retries=2,",
        f"{_MODEL_TEST}::test_refusals_are_classified_and_asked_once",
    ),
    Mutant(
        "B-06",
        "leaving a stream does not close it",
        _MODEL,
        "                await response.close()",
        "                pass",
        f"{_MODEL_TEST}::test_leaving_the_context_closes_the_connection_at_once",
    ),
    Mutant(
        "B-24",
        "silence in mid-stream has no limit",
        "shared/policy/generation_deadline.py",
        'deadlines.append((progress.last_event_ms + limits.silence_timeout_ms, "silence"))',
        "pass",
        "tests/unit/shared/turn/test_generation.py::test_silence_and_endless_calls_end_in_a_stated_time",
    ),
    Mutant(
        "B-24",
        "a call past its limit goes on",
        "shared/turn/generation.py",
        "                self.limit.interrupt()\n",
        "",
        "tests/unit/shared/turn/test_generation.py::test_silence_and_endless_calls_end_in_a_stated_time",
    ),
    Mutant(
        "B-24",
        "pings do not count as life",
        "shared/policy/generation_deadline.py",
        'deadlines.append((progress.last_event_ms + limits.silence_timeout_ms, "silence"))',
        'deadlines.append((progress.started_ms + limits.silence_timeout_ms, "silence"))',
        "tests/unit/shared/turn/test_generation.py::test_pings_alone_keep_a_call_alive_until_the_generation_limit",
    ),
    Mutant(
        "B-24",
        "a call may go on for ever",
        "shared/policy/generation_deadline.py",
        'progress.started_ms + limits.generation_limit_ms, "generation"',
        'progress.started_ms + 1_000 * limits.generation_limit_ms, "generation"',
        "tests/unit/shared/turn/test_generation.py::test_silence_and_endless_calls_end_in_a_stated_time",
    ),
    Mutant(
        "B-13",
        "a refusal is an answer",
        _REPLY,
        'frozenset({"end_turn", ',
        'frozenset({"refusal", "end_turn", ',
        f"{_REPLY_TEST}::test_any_other_reason_is_no_answer",
    ),
    Mutant(
        "B-13",
        "an answer at its length limit is none",
        _REPLY,
        '"stop_sequence", "max_tokens", ',
        '"stop_sequence", ',
        f"{_PIPELINE_TEST}::test_a_reason_that_ends_an_answer_reaches_reader_and_store",
    ),
    Mutant(
        "B-12",
        "a blank answer is an answer",
        _REPLY,
        "if reply.stopped.stop_reason in ANSWERED and reply.is_visible:",
        "if reply.stopped.stop_reason in ANSWERED:",
        f"{_PIPELINE_TEST}::test_a_blank_answer_fails_and_the_next_turn_is_valid",
    ),
    Mutant(
        "B-13",
        "a stream without a stop reason is complete",
        _REPLY,
        "    if reply.stopped is None:\n        return CutOff()\n",
        '    if reply.stopped is None:\n        return Answered("end_turn", Usage())\n',
        "tests/unit/shared/turn/test_generation.py::test_a_stream_without_a_stop_reason_broke_off",
    ),
    Mutant(
        "B-12",
        "white space is shown before any text",
        _REPLY,
        "reply.is_visible or bool(fresh.strip())",
        "reply.is_visible or bool(fresh)",
        f"{_REPLY_TEST}::test_white_space_is_held_back_until_something_is_visible",
    ),
)
