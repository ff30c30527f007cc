"""The HTTP modes: replies whole and once, readers that leave, work that goes on without them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_MODES = "tests/integration/test_http_modes.py"
_ORDER = "tests/unit/services/gateway/test_ordered_reply.py"
_CALL = "tests/unit/services/gateway/test_chat_call.py"

MUTANTS = (
    Mutant(
        "P2",
        "a synchronous reply leaves out what a lost push held",
        "services/gateway/virtual_connection.py",
        "        if is_new or self._clock.now_ms()",
        "        if False and self._clock.now_ms()",
        f"{_MODES}::test_lost_pushes_cost_a_question_and_no_text",
    ),
    Mutant(
        "P2",
        "an HTTP reader gets frames twice",
        "services/gateway/ordered_reply.py",
        "if head.attempt < self.attempt or head.seq <= last_seq:",
        "if head.attempt < self.attempt:",
        f"{_ORDER}::test_repeats_lower_attempts_and_other_turns_are_dropped",
    ),
    Mutant(
        "P2",
        "text of an attempt that was taken over stays in a synchronous reply",
        "services/gateway/collected_reply.py",
        "                    self._text.clear()  # of an attempt that was taken over",
        "                    pass",
        "tests/unit/services/gateway/test_collected_reply.py"
        "::test_text_of_an_attempt_that_was_taken_over_is_gone",
    ),
    Mutant(
        "P1",
        "a stream whose reader has everything never ends",
        "services/gateway/ordered_reply.py",
        "            self.is_ended = head.is_terminal\n            return Verdict.DROP",
        "            return Verdict.DROP",
        f"{_ORDER}::test_an_end_that_the_reader_has_or_cannot_use_says_that_nothing_follows",
    ),
    Mutant(
        "P6",
        "a caller who left a synchronous call is waited for",
        "services/gateway/waiting_call.py",
        "await asyncio.wait([reading, left, alarm], return_when=asyncio.FIRST_COMPLETED)",
        "await asyncio.wait([reading, alarm], return_when=asyncio.FIRST_COMPLETED)",
        f"{_MODES}::test_a_caller_who_leaves_is_a_reader_who_left",
    ),
    Mutant(
        "P6",
        "a turn that its caller is to poll loses its grace",
        "services/gateway/waiting_call.py",
        "            await self._detach(caller.session, reply.turn_id)\n",
        "",
        f"{_MODES}::test_a_reply_that_takes_too_long_goes_on_and_can_be_polled",
    ),
    Mutant(
        "P6",
        "a message sent again as asynchronous still needs its first reader",
        "services/gateway/detached_call.py",
        "        if answer.duplicate and answer.status in _UNENDED:\n",
        "        if False:\n",
        f"{_MODES}::test_a_message_sent_again_without_waiting_goes_on_without_a_reader",
    ),
    Mutant(
        "P11",
        "any number of calls may wait",
        "services/gateway/virtual_connections.py",
        "        if self._open >= self._connections_limit:\n",
        "        if False:\n",
        f"{_MODES}::test_calls_that_wait_are_bounded_by_process_and_by_user",
    ),
    Mutant(
        "P11",
        "a message whose queue message is too long is taken",
        "services/gateway/chat_call.py",
        "    if len(_encode(frame)) > encoded_limit_bytes:\n",
        "    if False:\n",
        f"{_CALL}::test_what_is_no_message_is_a_fault_with_the_code_of_a_socket",
    ),
    Mutant(
        "P7",
        "a lower priority waits in the caller's place",
        "services/gateway/chat_call.py",
        '    if wanted.priority != "high" and mode != "detach":\n',
        "    if False:\n",
        f"{_CALL}::test_a_lower_priority_is_for_calls_that_do_not_wait",
    ),
    Mutant(
        "P9",
        "a turn of lower priority has no limit of its own",
        "services/gateway/sending.py",
        "            limit_at_ms = now_ms + self._limits.of(priority)",
        "            limit_at_ms = 0",
        f"{_MODES}::test_lower_priorities_go_to_their_own_queue_with_a_limit_of_their_own",
    ),
    Mutant(
        "P7",
        "a draining gateway takes calls that wait",
        "services/gateway/virtual_connections.py",
        "        if self._is_draining():\n",
        "        if False:\n",
        f"{_MODES}::test_a_draining_gateway_sends_readers_on_and_takes_no_new_ones",
    ),
)
