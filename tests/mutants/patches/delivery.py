"""From a writer's text to a reader's connection."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_WRITER = "shared/turn/writer.py"
_FLUSHER = "shared/turn/flusher.py"
_FLUSHER_TEST = "tests/unit/shared/turn/test_flusher.py"
_PUSHER = "shared/turn/pusher.py"
_PUSHER_TEST = "tests/unit/shared/turn/test_pusher.py"
_API = "shared/adapters/management_api_push.py"
_PUSH_SUITE = "tests/contract/test_frame_push.py"

MUTANTS = (
    Mutant(
        "P2",
        "frames are pushed before they are logged",
        _WRITER,
        "fresh = self._frames[self.pushed : self.logged]\n"
        "        self.pushed = max(self.pushed, self.logged)",
        "fresh = self._frames[self.pushed :]\n        self.pushed = len(self._frames)",
        "tests/unit/shared/turn/test_writer.py::test_frames_are_pushed_once_and_only_when_logged",
    ),
    Mutant(
        "P2",
        "a frame is pushed twice",
        _WRITER,
        "        self.pushed = max(self.pushed, self.logged)\n",
        "",
        "tests/unit/shared/turn/test_writer.py::test_frames_are_pushed_once_and_only_when_logged",
    ),
    Mutant(
        "P2",
        "text is cut into two frames",
        _WRITER,
        "fresh = self.text[self._cut_characters :]",
        "fresh = self.text",
        "tests/unit/shared/turn/test_pipeline.py"
        "::test_a_hundred_tokens_at_fifty_a_second_take_at_most_55_frames",
    ),
    Mutant(
        "P2",
        "a gap is not filled from memory",
        _WRITER,
        "self.logged = min(last_seq + 1, len(self._frames))",
        "self.logged = self.logged",
        f"{_FLUSHER_TEST}::test_a_gap_in_the_log_is_filled_from_memory_and_pushed_once",
    ),
    Mutant(
        "P4",
        "a fenced producer goes on",
        _WRITER,
        "            case Fenced() | TurnEnded():\n                self.stop(Stop.FENCED)",
        "            case Fenced() | TurnEnded():\n                pass",
        "tests/unit/shared/turn/test_pipeline.py::test_a_fenced_producer_stops_and_writes_nothing_more",
    ),
    Mutant(
        "P4",
        "an earlier reason hides that a producer is fenced",
        _WRITER,
        "if self.stop_reason is None or reason is Stop.FENCED:",
        "if self.stop_reason is None:",
        "tests/unit/shared/turn/test_writer.py"
        "::test_the_first_reason_to_stop_counts_but_fencing_overrules",
    ),
    Mutant(
        "P2",
        "text of two attempts mixes",
        _WRITER,
        "        self.logged = self.pushed = 0\n",
        "",
        "tests/unit/shared/turn/test_writer.py"
        "::test_a_new_claim_says_everything_again_under_its_number",
    ),
    Mutant(
        "P6",
        "the cancel flag is overlooked",
        _WRITER,
        "                if answer.cancel_requested:\n                    self.stop(Stop.CANCELLED)\n",
        "",
        "tests/unit/shared/turn/test_pipeline.py"
        "::test_stop_closes_the_model_within_two_seconds_and_stores_the_partial_answer",
    ),
    Mutant(
        "P2",
        "frames are cut on while the ledger is away",
        _FLUSHER,
        "if not (self._failures and writer.has_unlogged_frames):",
        "if True:",
        f"{_FLUSHER_TEST}::test_a_frozen_frame_never_changes_however_often_it_is_appended",
    ),
    Mutant(
        "B-19",
        "a slow reader thins everybody's frames",
        _FLUSHER,
        "if any(self._pusher.is_free(follower) for follower in writer.followers):",
        "if all(self._pusher.is_free(follower) for follower in writer.followers):",
        f"{_FLUSHER_TEST}::test_a_slow_reader_does_not_thin_the_frames_of_another",
    ),
    Mutant(
        "B-38",
        "a turn that nobody reads is logged at full rate",
        _FLUSHER,
        "return waited_ms >= self._limits.tick_max_ms",
        "return True",
        f"{_FLUSHER_TEST}::test_a_turn_that_nobody_reads_now_is_still_logged_but_rarely",
    ),
    Mutant(
        "B-05",
        "a departed reader stays a follower when the ledger was away",
        _FLUSHER,
        "await self._clock.sleep(_UNFOLLOW_WAIT_S)",
        "return",
        f"{_FLUSHER_TEST}::test_a_reader_whose_connection_is_gone_is_removed_even_when_the_ledger_was_away",
    ),
    Mutant(
        "P6",
        "a detached turn is stopped without readers",
        "shared/turn/claim_keeper.py",
        "if since_ms and not writer.request.detached and",
        "if since_ms and",
        "tests/unit/shared/turn/test_pipeline.py::test_a_detached_turn_needs_no_reader",
    ),
    Mutant(
        "P6",
        "readers gone past the grace stop nothing",
        "shared/turn/claim_keeper.py",
        "            writer.stop(Stop.READERLESS)",
        "            pass",
        "tests/unit/shared/turn/test_pipeline.py"
        "::test_readers_gone_past_the_grace_close_the_model_call",
    ),
    Mutant(
        "P2",
        "frames overtake a failed request",
        _PUSHER,
        "connection.queue.extendleft(reversed(unsent))",
        "connection.queue.extend(unsent)",
        f"{_PUSHER_TEST}::test_what_came_during_a_failed_request_stays_behind_it",
    ),
    Mutant(
        "P2",
        "two pushes to one connection at once",
        _PUSHER,
        "return bool(self.queue) and not self.in_flight and not self.held",
        "return bool(self.queue) and not self.held",
        f"{_PUSHER_TEST}::test_what_comes_during_a_push_gathers_for_the_next",
    ),
    Mutant(
        "B-09",
        "429 counts as gone",
        _PUSHER,
        "elif status is PushStatus.THROTTLED or self._may_be_opening(connection):",
        "elif self._may_be_opening(connection):",
        "tests/unit/shared/turn/test_throttled_endpoint.py"
        "::test_every_third_post_refused_keeps_the_order_and_ends_the_turn",
    ),
    Mutant(
        "B-09",
        "a throttled connection is asked again at once",
        _PUSHER,
        "        connection.held = True\n",
        "",
        f"{_PUSHER_TEST}::test_a_throttled_connection_is_held_alone_and_keeps_its_order",
    ),
    Mutant(
        "B-08",
        "nobody hears that a connection is gone",
        _PUSHER,
        "                sink.connection_gone(connection.follower)",
        "                pass",
        f"{_PUSHER_TEST}::test_a_farewell_removes_the_follower_and_stops_posting",
    ),
    Mutant(
        "B-08",
        "a very young connection is taken for gone",
        _PUSHER,
        "return not connection.delivered and connection.failures < self._limits.young_gone_retries",
        "return False",
        f"{_PUSHER_TEST}::test_a_very_young_connection_is_asked_again_for_a_short_time",
    ),
    Mutant(
        "B-36",
        "posting goes on with a refused credential",
        _PUSHER,
        "endpoint.forbidden_until_s = self._clock.monotonic_s() + _FORBIDDEN_FOR_S",
        "endpoint.forbidden_until_s = None",
        f"{_PUSHER_TEST}::test_a_refused_credential_stops_posting_and_removes_nobody",
    ),
    Mutant(
        "P11",
        "a backlog has no bound",
        _PUSHER,
        '            self._drop(connection, "backlog")',
        "            pass",
        f"{_PUSHER_TEST}::test_a_backlog_beyond_its_bound_is_dropped",
    ),
    Mutant(
        "P11",
        "any number of requests in flight",
        _PUSHER,
        "while endpoint.in_flight < self._limits.requests_per_endpoint:",
        "while True:",
        f"{_PUSHER_TEST}::test_at_most_eight_requests_are_in_flight_per_endpoint",
    ),
    Mutant(
        "B-10",
        "a frame refused for its size goes unnoticed",
        _PUSHER,
        "                    queued.sink.frame_refused()",
        "                    pass",
        "tests/unit/shared/turn/test_pipeline.py"
        "::test_a_frame_that_a_transport_refuses_for_size_ends_the_turn",
    ),
    Mutant(
        "B-10",
        "escapes are not counted when text is cut",
        "shared/policy/frame_cutting.py",
        "return len(_encode(character)) - 2",
        "return len(character.encode())",
        "tests/unit/shared/policy/test_frame_cutting.py"
        "::test_text_that_grows_past_the_limit_only_by_escaping_is_cut",
    ),
    Mutant(
        "B-10",
        "characters are counted instead of bytes",
        "shared/policy/frame_cutting.py",
        "return len(_encode(character)) - 2",
        "return 1",
        "tests/unit/shared/policy/test_frame_cutting.py"
        "::test_pieces_join_to_the_text_and_fit_after_encoding",
    ),
    Mutant(
        "B-36",
        "a refused signature looks like an outage",
        _API,
        "if status == 403:",
        "if False:",
        f"{_PUSH_SUITE}::test_a_refused_signature_is_a_configuration_error",
    ),
    Mutant(
        "P2",
        "later frames pass a throttled one",
        _API,
        "if status in {PushStatus.GONE, PushStatus.THROTTLED}:",
        "if status in {PushStatus.GONE}:",
        "tests/unit/shared/adapters/test_management_api_push.py"
        "::test_later_frames_of_a_refused_connection_are_not_sent",
    ),
    Mutant(
        "B-10",
        "a post above AWS's limit is sent",
        _API,
        "if len(frame.data) > PUSH_LIMIT_BYTES:",
        "if False:",
        f"{_PUSH_SUITE}::test_a_frame_above_the_limit_of_one_post_is_not_sent",
    ),
    Mutant(
        "B-36",
        "a stage named twice is accepted",
        "shared/policy/push_endpoint.py",
        "if len(stages) != len(set(stages)):",
        "if False:",
        "tests/unit/shared/policy/test_push_endpoint.py"
        "::test_an_endpoint_that_cannot_work_names_the_setting_and_the_fault",
    ),
    Mutant(
        "B-34",
        "a stale kept connection fails the request",
        "shared/adapters/http_session.py",
        "                except _STALE_CONNECTION:\n"
        "                    return await self._exchange(method, url, headers, body)",
        "                except _STALE_CONNECTION:\n                    raise",
        "tests/unit/shared/adapters/test_http_session.py"
        "::test_a_request_is_sent_once_more_after_a_stale_connection",
    ),
)
