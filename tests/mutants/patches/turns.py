"""One turn: entry, memory, prompt, answering, settlement."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PIPELINE_TEST = "tests/unit/shared/turn/test_pipeline.py"
_SETTLEMENT = "shared/turn/settlement.py"
_SETTLEMENT_TEST = "tests/unit/shared/turn/test_settlement.py"
_CLOSING = "shared/turn/closing.py"
_MEMORY = "shared/turn/memory.py"
_WINDOW = "shared/policy/history_window.py"
_WINDOW_TEST = "tests/unit/shared/policy/test_history_window.py"

MUTANTS = (
    Mutant(
        "P7",
        "a stale turn is run",
        "shared/turn/entry.py",
        "if is_stale(request, self._clock.now_ms(), self._limits):",
        "if False:",
        "tests/unit/shared/turn/test_entry.py::test_a_stale_turn_expires_in_words_and_frees_its_session",
    ),
    Mutant(
        "P8",
        "a takeover counts as stale",
        "shared/policy/staleness.py",
        "    if request.attempt_hint > 0:\n        return False\n",
        "",
        "tests/unit/shared/policy/test_staleness.py"
        "::test_staleness_counts_from_ready_and_spares_takeovers_and_background_work",
    ),
    Mutant(
        "P5",
        "a turn ages behind its predecessor",
        "shared/policy/staleness.py",
        "return request.ready_at_ms or request.accepted_at_ms",
        "return request.accepted_at_ms",
        "tests/unit/shared/policy/test_staleness.py"
        "::test_staleness_counts_from_ready_and_spares_takeovers_and_background_work",
    ),
    Mutant(
        "P6",
        "a readerless turn is not ended at its claim",
        "shared/turn/entry.py",
        "                return await self._end_readerless(request, state)",
        "                return _REFUSED",
        "tests/unit/shared/turn/test_entry.py::test_a_turn_whose_readers_left_before_the_claim_ends_without_a_model_call",
    ),
    Mutant(
        "P3",
        "a stored answer is overlooked where nobody reads",
        "shared/turn/entry.py",
        "if attempt and not await self._is_marked(request, attempt):",
        "if False:",
        "tests/unit/shared/turn/test_entry.py::test_a_takeover_that_nobody_reads_ends_unless_its_answer_is_stored",
    ),
    Mutant(
        "P3",
        "a takeover asks the model for what is stored",
        _MEMORY,
        "if claimed.ref.attempt == 1:",
        "if claimed.ref.attempt >= 1:",
        "tests/unit/shared/turn/test_memory.py::test_a_takeover_delivers_the_answer_that_is_already_stored",
    ),
    Mutant(
        "B-22",
        "a turn's own session is not remembered",
        _SETTLEMENT,
        "(*facts.recalled, newest),",
        "facts.recalled,",
        "tests/unit/shared/turn/test_memory.py::test_run_reads_no_store_when_the_history_is_cached",
    ),
    Mutant(
        "B-12",
        "blank halves are sent to the model",
        _WINDOW,
        "return bool(entry.user_text.strip()) and bool(entry.assistant_text.strip())",
        "return True",
        f"{_WINDOW_TEST}::test_the_window_is_the_newest_whole_usable_turns_within_both_bounds",
    ),
    Mutant(
        "B-33",
        "the window skips a large turn and goes on",
        _WINDOW,
        "            break\n",
        "            tokens -= estimate_tokens(entry.user_text)\n"
        "            tokens -= estimate_tokens(entry.assistant_text)\n"
        "            continue\n",
        f"{_WINDOW_TEST}::test_the_window_is_the_newest_whole_usable_turns_within_both_bounds",
    ),
    Mutant(
        "B-33",
        "the oldest turns are kept",
        _WINDOW,
        "for entry in reversed([entry for entry in oldest_first if is_usable(entry)]):",
        "for entry in [entry for entry in oldest_first if is_usable(entry)]:",
        f"{_WINDOW_TEST}::test_every_length_keeps_that_many_turns",
    ),
    Mutant(
        "P10",
        "a passage can close its element",
        "shared/turn/prompt.py",
        "{escape(text)}</{name}>",
        "{text}</{name}>",
        "tests/unit/shared/turn/test_prompt.py::test_passages_cannot_close_their_elements",
    ),
    Mutant(
        "B-12",
        "a blank question is sent to the model",
        "shared/turn/prompt.py",
        "if not question.strip():",
        "if False:",
        "tests/unit/shared/turn/test_prompt.py::test_a_blank_question_is_refused",
    ),
    Mutant(
        "P11",
        "a slow source holds up the answer",
        "shared/turn/deadline.py",
        "        limit.interrupt()\n",
        "        pass\n",
        "tests/unit/shared/turn/test_deadline.py::test_within_cancels_what_is_late",
    ),
    Mutant(
        "P2",
        "a call is repeated after visible text",
        "shared/policy/retry.py",
        "if is_visible or tries >= limits.attempts_per_turn:",
        "if tries >= limits.attempts_per_turn:",
        "tests/unit/shared/turn/test_answering.py::test_an_error_after_visible_text_ends_the_turn_once",
    ),
    Mutant(
        "P11",
        "retries never end",
        "shared/policy/retry.py",
        "if is_visible or tries >= limits.attempts_per_turn:",
        "if is_visible:",
        "tests/unit/shared/turn/test_answering.py::test_retries_end_with_the_last_errors_code",
    ),
    Mutant(
        "B-23",
        "a wait outlives the turn",
        "shared/policy/retry.py",
        "if deadline_ms is not None and now_ms + wait_ms >= deadline_ms:",
        "if False:",
        "tests/unit/shared/turn/test_answering.py::test_a_hint_longer_than_the_turns_life_fails_at_once_with_the_hint",
    ),
    Mutant(
        "B-23",
        "a function sleeps as long as it is told",
        "shared/policy/retry.py",
        "if longest_here is not None and wait_ms > longest_here:",
        "if False:",
        "tests/unit/shared/policy/test_retry.py::test_a_function_does_not_sleep_long",
    ),
    Mutant(
        "B-23",
        "the provider's hint is shortened by chance",
        "shared/policy/retry.py",
        "wait_ms = hint_ms + round(spread * _HINT_SPREAD_SHARE * hint_ms)",
        "wait_ms = round(spread * hint_ms)",
        "tests/unit/shared/policy/test_retry.py"
        "::test_a_wait_never_outlives_the_turn_and_is_never_shorter_than_the_hint",
    ),
    Mutant(
        "B-23",
        "a date that has passed is a negative wait",
        "shared/policy/retry_after.py",
        "return max(0, int(at.timestamp() * 1000) - now_ms)",
        "return int(at.timestamp() * 1000) - now_ms",
        "tests/unit/shared/policy/test_retry_after.py::test_retry_after_reads_seconds_and_dates",
    ),
    Mutant(
        "P9",
        "a bug is no dead letter",
        "shared/policy/failed_ends.py",
        'if code == "internal" or isinstance(error, ModelRejected):',
        "if isinstance(error, ModelRejected):",
        f"{_PIPELINE_TEST}::test_a_bug_ends_the_turn_in_words_and_as_evidence",
    ),
    Mutant(
        "P9",
        "a frame that a transport refuses leaves no evidence",
        "shared/turn/pipeline.py",
        'return failed(FrameTooLarge("a transport refused a frame for its size"))',
        'return __import__("dataclasses").replace(failed(FrameTooLarge("")), error=None)',
        "tests/unit/shared/turn/test_evidence.py"
        "::test_every_reason_to_stop_leaves_the_evidence_it_owes",
    ),
    Mutant(
        "P9",
        "the turn ends before its letter is sent",
        _SETTLEMENT,
        "            await self._bury(writer, ending.error, klass, stopwatch)\n",
        "            bury = self._bury(writer, ending.error, klass, stopwatch)\n"
        '            __import__("asyncio").ensure_future(bury)\n',
        "tests/unit/shared/turn/test_settlement.py::test_a_dead_letter_is_sent_again_before_the_turn_ends",
    ),
    Mutant(
        "B-38",
        "an answer that was not stored is told as complete",
        _SETTLEMENT,
        "            return await self._fail("
        'writer, failed(error), facts, stopwatch, klass="not_stored")',
        "            winner = None",
        "tests/unit/shared/turn/test_archive.py::test_an_answer_that_cannot_be_stored_is_reported_and_kept_as_evidence",
    ),
    Mutant(
        "P3",
        "an answer stored by a newer attempt is overlooked",
        _SETTLEMENT,
        "        if winner is not None:\n"
        "            return await self._give_way(writer, winner, facts)\n"
        "        terminal = completed_frame(",
        "        terminal = completed_frame(",
        "tests/unit/shared/turn/test_archive.py::test_an_answer_stored_by_a_newer_attempt_leaves_the_end_to_it",
    ),
    Mutant(
        "P3",
        "a later attempt ends without a marker",
        _SETTLEMENT,
        "if writer.claim.attempt == 1 and held_ms < self._limits.lease_ms:",
        "if True:",
        f"{_SETTLEMENT_TEST}::test_a_second_attempt_that_fails_leaves_a_marker_before_it_ends",
    ),
    Mutant(
        "P3",
        "an end needs no marker although the lease may have lapsed",
        _SETTLEMENT,
        "if writer.claim.attempt == 1 and held_ms < self._limits.lease_ms:",
        "if writer.claim.attempt == 1:",
        f"{_SETTLEMENT_TEST}::test_an_end_is_marked_as_well_when_the_lease_may_have_lapsed",
    ),
    Mutant(
        "P2",
        "text of two attempts mixes when a stored answer is delivered",
        _SETTLEMENT,
        "if is_answer(winner) and not writer.text:",
        "if is_answer(winner):",
        f"{_SETTLEMENT_TEST}::test_an_end_after_shown_text_gives_way_to_an_answer_that_is_stored",
    ),
    Mutant(
        "P3",
        "a stop throws the shown text away",
        _SETTLEMENT,
        "        if writer.text:\n            stored = self._item(",
        "        if False:\n            stored = self._item(",
        f"{_PIPELINE_TEST}"
        "::test_stop_closes_the_model_within_two_seconds_and_stores_the_partial_answer",
    ),
    Mutant(
        "P5",
        "the finisher forgets the next head",
        _SETTLEMENT,
        "if closed.next_head is not None:",
        "if False:",
        "tests/unit/shared/turn/test_settlement.py::test_the_finisher_dispatches_the_next_head",
    ),
    Mutant(
        "B-21",
        "our own end is taken for somebody else's",
        _CLOSING,
        "case TurnEnded(_, outcome) if outcome == append.frames[-1]:",
        "case TurnEnded(_, outcome) if False:",
        "tests/unit/shared/turn/test_closing.py::test_a_finish_whose_answer_got_lost_counts_as_ours",
    ),
    Mutant(
        "P2",
        "a gap found by the last append is not filled",
        _CLOSING,
        "                writer.rewind(last_seq)",
        "                return _SUPERSEDED",
        "tests/unit/shared/turn/test_flusher.py::test_a_gap_found_by_the_last_append_is_filled_too",
    ),
    Mutant(
        "P8",
        "a cut turn keeps its claim",
        "shared/turn/pipeline.py",
        "            await self._settlement.hand_over(writer)\n",
        "",
        "tests/unit/shared/turn/test_redispatch.py::test_a_worker_that_is_stopped_hands_over_at_once",
    ),
    Mutant(
        "B-01",
        "an error after a stop hides the stop",
        "shared/turn/pipeline.py",
        "if stop is None or (is_answer and stop is not Stop.FENCED):",
        "if ending is not None and stop is not Stop.FENCED:",
        f"{_SETTLEMENT_TEST}::test_errors_of_a_call_that_is_being_closed_do_not_hide_the_stop",
    ),
    Mutant(
        "P4",
        "a fenced attempt settles its turn",
        "shared/turn/pipeline.py",
        "            return Superseded()\n",
        '            return failed(RuntimeError("fenced"))\n',
        f"{_PIPELINE_TEST}::test_a_fenced_producer_stops_and_writes_nothing_more",
    ),
    Mutant(
        "B-21",
        "every try of a claim has another nonce",
        "shared/turn/claimant.py",
        "                nonce=nonce,\n",
        "                nonce=ClaimNonce(self._randomness.token_bytes(_NONCE_BYTES).hex()),\n",
        "tests/unit/shared/turn/test_claimant.py"
        "::test_a_claim_whose_answer_got_lost_is_recognised_as_our_own",
    ),
    Mutant(
        "P12",
        "a question is logged",
        "shared/turn/pipeline.py",
        '_log.info("turn.claimed", path=path,',
        '_log.info("turn.claimed", path=path, text=claimed.request.text,',
        "tests/unit/shared/turn/test_privacy.py::test_a_turns_words_are_never_logged",
    ),
    Mutant(
        "P12",
        "a bug's message is logged",
        "shared/telemetry.py",
        '"error_type": type(error).__name__, "stack": stack}',
        '"error_type": repr(error), "stack": stack}',
        "tests/unit/shared/turn/test_privacy.py::test_a_turns_words_are_never_logged",
    ),
)
