"""The sweeper: who is rescued, when, and how often."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_RULES = "shared/policy/sweeping.py"
_RULES_TEST = "tests/unit/shared/policy/test_sweeping.py"
_SWEEPER_TEST = "tests/unit/shared/turn/test_sweeper.py"

MUTANTS = (
    Mutant(
        "B-03",
        "a living worker's turn is taken over",
        _RULES,
        "if state.lease_until_ms > now_ms:",
        "if False:",
        f"{_RULES_TEST}::test_a_living_lease_is_looked_at_when_it_would_lapse",
    ),
    Mutant(
        "P11",
        "a poison turn gets a third try",
        _RULES,
        "if crashes >= limits.crashes_per_turn:",
        "if crashes > limits.crashes_per_turn:",
        "tests/unit/shared/turn/test_redispatch.py::test_two_crashed_attempts_are_poison_and_get_no_third_try",
    ),
    Mutant(
        "P9",
        "a released attempt counts as a crash",
        _RULES,
        "crashes = recovery.crashes + (recovery.released is None)",
        "crashes = recovery.crashes + 1",
        f"{_RULES_TEST}::test_a_released_attempt_has_not_crashed",
    ),
    Mutant(
        "P1",
        "an unclaimed takeover is dispatched for ever",
        _RULES,
        "if not recovery.dispatches or unclaimed_ms < 0:",
        "if True:",
        "tests/unit/shared/turn/test_redispatch.py::test_unclaimed_for_45_s_it_fails_with_evidence",
    ),
    Mutant(
        "B-16",
        "an outage counts against a turn",
        _RULES,
        "if not recovery.dispatches or unclaimed_ms < 0:",
        "if unclaimed_ms < 0:",
        f"{_RULES_TEST}::test_an_outage_ends_no_turn_that_nobody_was_asked_to_take_over",
    ),
    Mutant(
        "P7",
        "a turn in burst is offered again and again",
        _RULES,
        "if recovery.is_offered:",
        "if False:",
        f"{_RULES_TEST}::test_queued_in_burst_for_twenty_seconds_it_is_offered_once",
    ),
    Mutant(
        "P8",
        "takeovers always go to the retry queue",
        _RULES,
        'return other if other and recovery.dispatches % 2 else "retry"',
        'return "retry"',
        "tests/unit/shared/turn/test_redispatch.py::test_targets_alternate_until_somebody_claims",
    ),
    Mutant(
        "P1",
        "an entry is removed before its turn came to be",
        _RULES,
        "return LookAgain(kept_until_ms) if now_ms < kept_until_ms else Remove()",
        "return Remove()",
        f"{_RULES_TEST}::test_an_entry_outlives_its_unknown_turn_by_thirty_seconds",
    ),
    Mutant(
        "P3",
        "a stored answer is not delivered when attempts are used up",
        _RULES,
        "if not recovery.is_delivery:",
        "if True:",
        f"{_RULES_TEST}::test_a_stored_answer_is_delivered_whatever_is_used_up",
    ),
    Mutant(
        "P3",
        "a turn fails although its answer is stored",
        "shared/turn/swept_ends.py",
        "        if is_answered:\n            await self._redispatch.deliver(turn)\n            return\n",
        "",
        "tests/unit/shared/turn/test_swept_ends.py::test_an_answer_stored_before_the_crash_is_delivered_instead_of_failing",
    ),
    Mutant(
        "P9",
        "a turn that used up its chances leaves no letter",
        "shared/turn/swept_ends.py",
        "            await self._bury(turn, decision.dead_letter)",
        "            pass",
        "tests/unit/shared/turn/test_redispatch.py::test_unclaimed_for_45_s_it_fails_with_evidence",
    ),
    Mutant(
        "P5",
        "the sweeper's end forgets the next head",
        "shared/turn/unclaimed_ends.py",
        "if finished.next_head is not None:",
        "if False:",
        "tests/unit/shared/turn/test_swept_ends.py::test_the_end_of_a_head_dispatches_the_next",
    ),
    Mutant(
        "B-16",
        "leases are judged at once after an outage",
        "shared/policy/lease_trust.py",
        "self._earned_at_ms = now_ms + self._lease_ms + self._spread_ms()",
        "self._earned_at_ms = now_ms",
        f"{_SWEEPER_TEST}::test_no_takeover_of_living_workers_when_redis_comes_back",
    ),
    Mutant(
        "P11",
        "any number of acts at once",
        "shared/turn/sweeper.py",
        "await self._settle(_bounded(judged, free), now_ms)",
        "await self._settle(judged, now_ms)",
        f"{_SWEEPER_TEST}::test_acts_at_once_are_bounded_and_nothing_is_forgotten",
    ),
    Mutant(
        "P8",
        "whoever looks at a turn acts on it",
        "shared/turn/sweeper.py",
        "elif is_ours and not isinstance(decision, Remove | LookAgain):",
        "elif not isinstance(decision, Remove | LookAgain):",
        f"{_SWEEPER_TEST}::test_whoever_did_not_move_the_entry_does_not_act",
    ),
    Mutant(
        "P1",
        "a turn that cannot be read is decided like any other",
        "shared/policy/sweeping.py",
        "    if state.unreadable is not None:\n",
        "    if False:\n",
        "tests/unit/shared/turn/test_swept_ends.py"
        "::test_a_turn_that_cannot_be_read_ends_as_evidence_and_holds_up_nobody",
    ),
    Mutant(
        "P10",
        "one turn that cannot be read hides the others from the sweeper",
        "shared/adapters/redis_ledger_replies.py",
        "    except PermanentError:\n        return None\n",
        "    except PermanentError:\n        raise\n",
        "tests/contract/test_unreadable_turns.py"
        "::test_one_unreadable_turn_hides_no_other_from_a_sweeper",
    ),
    Mutant(
        "P10",
        "one unreadable follower stops all turns of a process",
        "shared/adapters/redis_ledger_replies.py",
        "        except (msgspec.MsgspecError, UnicodeError, ValueError):\n",
        "        except ZeroDivisionError:\n",
        "tests/contract/test_unreadable_turns.py"
        "::test_an_unreadable_follower_or_attempt_is_left_out",
    ),
)
