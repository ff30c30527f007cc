"""The shared model budget, what the provider says of it, and what analytics is told."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SCRIPT = "shared/adapters/lua/budget.lua"
_WINDOW_TEST = "tests/contract/test_budget_window.py"
_BUDGET = "shared/turn/model_budget.py"
_BUDGET_TEST = "tests/unit/shared/turn/test_model_budget.py"
_CALL = "shared/turn/budgeted_generation.py"
_CALL_TEST = "tests/unit/shared/turn/test_budgeted_generation.py"
_WAIT_TEST = "tests/unit/shared/policy/test_budget_wait.py"
_HEADERS = "shared/policy/rate_headers.py"
_HEADERS_TEST = "tests/unit/shared/policy/test_rate_headers.py"
_KINESIS = "shared/adapters/kinesis_turn_events.py"
_KINESIS_TEST = "tests/unit/shared/adapters/test_kinesis_turn_events.py"
_EVENTS = "shared/turn/ended_turns.py"
_EVENTS_TEST = "tests/unit/shared/turn/test_ended_turns.py"

MUTANTS = (
    Mutant(
        "P11",
        "a process may hold in advance while others wait",
        _SCRIPT,
        "if not is_line and paused <= now then",
        "if paused <= now then",
        f"{_WINDOW_TEST}::test_an_advance_counts_until_it_is_given_back",
    ),
    Mutant(
        "P11",
        "a refund lapses apart from its charge",
        _SCRIPT,
        "add(at, ARGV[corrections_at + 3 * n + 1], 0, arg(corrections_at + 3 * n + 2))",
        "add(cell, ARGV[corrections_at + 3 * n + 1], 0, arg(corrections_at + 3 * n + 2))",
        f"{_WINDOW_TEST}::test_what_was_not_used_comes_back_into_the_cell_that_was_charged",
    ),
    Mutant(
        "P11",
        "what a dead process held was never used",
        _SCRIPT,
        "if requests > 0 then add(cell, 'i', requests, tokens) end",
        "",
        f"{_WINDOW_TEST}::test_what_a_dead_process_held_counts_as_used",
    ),
    Mutant(
        "P10",
        "interactive calls leave detached ones nothing",
        _SCRIPT,
        "if requests <= 0 then return true end",
        "if requests >= 0 then return true end",
        f"{_WINDOW_TEST}::test_detached_calls_keep_a_share_while_interactive_ones_wait",
    ),
    Mutant(
        "P10",
        "small calls pass a large one for ever",
        _SCRIPT,
        "if first_in_line and first_in_line ~= me then",
        "if false then",
        f"{_WINDOW_TEST}::test_whoever_waits_longest_is_served_before_later_ones",
    ),
    Mutant(
        "P10",
        "a process that died in the line holds everybody up",
        _SCRIPT,
        "if seen and tonumber(seen) > now - LINE_DEAD_AFTER then return worker end",
        "if seen then return worker end",
        f"{_WINDOW_TEST}::test_a_process_that_died_in_the_line_holds_nobody_up",
    ),
    Mutant(
        "P11",
        "the provider's headers raise the limits",
        _SCRIPT,
        "cap_r = math.min(cap_r, limit_r)",
        "cap_r = limit_r",
        f"{_WINDOW_TEST}::test_the_provider_does_not_raise_them",
    ),
    Mutant(
        "P11",
        "what others use of the quota does not count",
        _SCRIPT,
        "if foreign_r > 0 or foreign_t > 0 then",
        "if false then",
        f"{_WINDOW_TEST}::test_what_others_used_of_the_quota_counts_for_a_minute",
    ),
    Mutant(
        "P11",
        "one refusal that is nobody else's stops everyone",
        _HEADERS,
        "is_for_all = is_refusal and is_used_up",
        "is_for_all = is_refusal",
        f"{_HEADERS_TEST}"
        "::test_a_refusal_without_the_limits_or_with_something_left_is_about_the_one_call",
    ),
    Mutant(
        "P11",
        "each call costs an exchange",
        _BUDGET,
        "if self._advance_requests * 2 < self._advance_size:",
        "if self._advance_requests < self._advance_size:",
        f"{_BUDGET_TEST}::test_exchanges_follow_time_and_not_the_number_of_calls",
    ),
    Mutant(
        "P11",
        "an advance outlives what the ledger keeps of it",
        _BUDGET,
        "if now_ms >= self._advance_until_ms or now_ms < self._paused_until_ms:",
        "if now_ms < self._paused_until_ms:",
        f"{_BUDGET_TEST}::test_an_advance_too_old_to_be_kept_for_us_is_not_used",
    ),
    Mutant(
        "P11",
        "a ticket whose caller has left stays charged",
        _BUDGET,
        "        if isinstance(answer, Ticket):\n            self.settle(answer, 0)\n",
        "",
        f"{_BUDGET_TEST}"
        "::test_a_granted_ticket_is_given_back_when_its_caller_is_cancelled_in_the_same_moment",
    ),
    Mutant(
        "P7",
        "a certain wait that is too long is waited for",
        _BUDGET,
        "            self._give_notice(grant)\n",
        "            pass\n",
        f"{_BUDGET_TEST}::test_patience_ends_with_the_wait_that_is_known",
    ),
    Mutant(
        "P7",
        "tokens that may come back count as a certain wait",
        _BUDGET,
        "earliest_ms = self._clock.now_ms() + grant.certain_wait_ms",
        "earliest_ms = self._clock.now_ms() + grant.wait_ms",
        f"{_BUDGET_TEST}::test_while_tokens_are_short_patience_is_kept_for_what_comes_back",
    ),
    Mutant(
        "P11",
        "without the ledger each process spends the whole budget",
        "shared/policy/budget_share.py",
        "part = SHARE / (workers or UNSEEN_WORKERS)",
        "part = 1.0",
        f"{_BUDGET_TEST}::test_without_the_ledger_the_process_spends_half_of_its_even_part",
    ),
    Mutant(
        "P7",
        "a wait for the budget counts as an attempt",
        "shared/adapters/lua/release.lua",
        "if ARGV[4] == 'throttled' then redis.call('HINCRBY', KEYS[1], 'tries', -1) end\n",
        "",
        "tests/contract/test_due_turns.py::test_a_throttled_claim_does_not_count_among_the_tries",
    ),
    Mutant(
        "P7",
        "hand-overs for the budget's sake never end",
        _CALL,
        "request, attempt=1, claimed_at_ms=started_ms, limits=self._limits",
        "request, attempt=2, claimed_at_ms=started_ms, limits=self._limits",
        f"{_CALL_TEST}::test_hand_overs_end_with_the_turns_own_limit",
    ),
    Mutant(
        "P11",
        "an answer stays charged with what was set aside for it",
        _CALL,
        "self._budget.settle(ticket, answered_tokens)",
        "self._budget.settle(ticket, ticket.tokens)",
        f"{_CALL_TEST}::test_an_answer_is_charged_with_what_it_used",
    ),
    Mutant(
        "P7",
        "a function waits as long as a service",
        "shared/policy/budget_wait.py",
        "        return longest_here\n    if",
        "        pass\n    if",
        f"{_WAIT_TEST}::test_a_function_waits_no_longer_than_it_would_for_a_retry",
    ),
    Mutant(
        "P7",
        "a turn takes a slot although the budget would let it go too late",
        "shared/policy/admission.py",
        "    if wait_ms < limits.wait_ms:\n        return None\n    return IntakeDecision(\n",
        "    if wait_ms >= 0:\n        return None\n    return IntakeDecision(\n",
        "tests/unit/shared/policy/test_admission.py"
        "::test_a_turn_that_would_be_too_old_when_the_model_budget_lets_it_go_is_shed_at_once",
    ),
    Mutant(
        "P11",
        "events pile up while the stream is away",
        _KINESIS,
        "if len(self._buffer) >= self._buffer_events:\n            self._dropped",
        "if False:\n            self._dropped",
        f"{_KINESIS_TEST}::test_what_finds_no_room_is_dropped_and_counted_and_nobody_waits",
    ),
    Mutant(
        "P11",
        "a whole batch is sent again for one refused record",
        _KINESIS,
        "            if result.error_code is not None\n        ]",
        "        ]",
        f"{_KINESIS_TEST}::test_refused_records_are_sent_again_alone_and_first",
    ),
    Mutant(
        "P11",
        "a refused record is sent for ever",
        _KINESIS,
        "if record.tries >= TRIES or len(self._buffer) >= self._buffer_events:",
        "if len(self._buffer) >= self._buffer_events:",
        f"{_KINESIS_TEST}::test_a_record_that_is_refused_again_and_again_is_dropped_and_counted",
    ),
    Mutant(
        "P12",
        "events name the session that a client chose",
        _EVENTS,
        "return turn_id[-_ULID_CHARACTERS:]",
        "return turn_id",
        f"{_EVENTS_TEST}::test_nothing_of_what_was_said_nor_who_said_it_is_in_an_event",
    ),
    Mutant(
        "P12",
        "a user's hash needs no key",
        _EVENTS,
        '        if not self._user_key:\n            return ""\n',
        "",
        f"{_EVENTS_TEST}::test_a_user_is_named_by_a_keyed_hash_or_not_at_all",
    ),
)
