"""The burst worker: what comes back, what is kept, what leaks."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_BATCH = "functions/burst_worker/batch.py"
_BATCH_TEST = "tests/unit/functions/burst_worker/test_batch.py"
_SQS_TEST = "tests/unit/functions/test_sqs_batch.py"
_ENVIRONMENT_TEST = "tests/unit/functions/burst_worker/test_environment.py"

MUTANTS = (
    Mutant(
        "B-04",
        "one failure returns the batch",
        _BATCH,
        "return [message for message, done in zip(messages, acknowledged, strict=True) if not done]",
        "return [] if all(acknowledged) else messages",
        f"{_BATCH_TEST}::test_only_the_turn_that_could_not_be_settled_comes_back",
    ),
    Mutant(
        "B-04",
        "the answer's key is misspelt",
        "functions/sqs_batch.py",
        '"itemIdentifier"',
        '"ItemIdentifier"',
        f"{_SQS_TEST}::test_the_answer_has_exactly_the_keys_that_the_trigger_reads",
    ),
    Mutant(
        "B-04",
        "an empty id is answered",
        "functions/sqs_batch.py",
        "            raise UnnamedMessage\n",
        "            pass\n",
        f"{_SQS_TEST}::test_an_empty_id_is_never_answered",
    ),
    Mutant(
        "P9",
        "a malformed body is tried again and again",
        _BATCH,
        "                return await self._keep_malformed(message, error)",
        "                return False",
        f"{_BATCH_TEST}::test_a_malformed_body_becomes_a_dead_letter_with_the_raw_body",
    ),
    Mutant(
        "P9",
        "a malformed body that could not be kept is deleted",
        _BATCH,
        '            _log.warning("message.malformed_not_kept", '
        "error_type=type(unavailable).__name__)\n            return False",
        '            _log.warning("message.malformed_not_kept", '
        "error_type=type(unavailable).__name__)\n            return True",
        f"{_BATCH_TEST}::test_a_malformed_body_that_cannot_be_kept_comes_back",
    ),
    Mutant(
        "B-35",
        "a turn is begun that cannot end",
        _BATCH,
        "        if not may_begin:\n",
        "        if False:\n",
        f"{_BATCH_TEST}::test_with_little_time_left_no_turn_is_begun",
    ),
    Mutant(
        "P8",
        "a turn is killed with its environment",
        _BATCH,
        "self._clock.sleep(max(0.0, give_up_at_s - self._clock.monotonic_s()))",
        "self._clock.sleep(10_000)",
        f"{_BATCH_TEST}"
        "::test_a_turn_that_outlasts_the_function_is_handed_over_before_the_platform_kills_it",
    ),
    Mutant(
        "B-23",
        "a retry waits inside the function",
        _BATCH,
        'if result.outcome == "retry_later":',
        "if False:",
        f"{_BATCH_TEST}::test_a_retry_leaves_the_function_for_the_retry_queue",
    ),
    Mutant(
        "P9",
        "a hand-over that failed is acknowledged",
        _BATCH,
        "            await self._return_after(message, delay_s)\n            return False",
        "            await self._return_after(message, delay_s)\n            return True",
        f"{_BATCH_TEST}::test_a_hand_over_that_fails_returns_the_message",
    ),
    Mutant(
        "B-28",
        "one turn's bug raises for all",
        _BATCH,
        '                _log.exception("turn.crashed", error)\n                return False',
        '                _log.exception("turn.crashed", error)\n                raise',
        f"{_BATCH_TEST}::test_a_bug_in_one_turn_harms_no_neighbour",
    ),
    Mutant(
        "P12",
        "a malformed body is quoted in the letter's error",
        "shared/turn/evidence.py",
        'message="not a queue message of schema 1"',
        "message=body",
        f"{_BATCH_TEST}::test_a_malformed_body_becomes_a_dead_letter_with_the_raw_body",
    ),
    Mutant(
        "B-37",
        "background tasks keep the first invocation's ids",
        "functions/burst_worker/environment.py",
        "        worker = await self._ready(context.function_version)\n"
        "        with bind(function_version=context.function_version, "
        "request_id=context.aws_request_id):\n",
        "        with bind(function_version=context.function_version, "
        "request_id=context.aws_request_id):\n"
        "            worker = await self._ready(context.function_version)\n",
        f"{_ENVIRONMENT_TEST}"
        "::test_background_tasks_carry_no_ids_of_the_invocation_that_began_them",
    ),
    Mutant(
        "B-34",
        "a broken worker is used again",
        "functions/burst_worker/environment.py",
        "if self._worker is not None and self._worker.is_broken:",
        "if False:",
        f"{_ENVIRONMENT_TEST}::test_a_broken_worker_is_replaced_at_the_next_invocation",
    ),
    Mutant(
        "B-29",
        "turns that others ended wait for a redrive",
        "shared/policy/triage.py",
        '        return Assessment(klass, "discard", "ended")',
        '        return Assessment(klass, "redrive", "ended")',
        "tests/unit/shared/policy/test_triage.py"
        "::test_a_moved_message_is_judged_by_the_turn_as_it_is",
    ),
)
