"""Where turns go, and when they are refused."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_RULES = "shared/policy/admission.py"
_RULES_TEST = "tests/unit/shared/policy/test_admission.py"
_LEVEL = "shared/policy/load_level.py"
_LEVEL_TEST = "tests/unit/shared/policy/test_load_level.py"

MUTANTS = (
    Mutant(
        "B-31",
        "the path flaps inside the band",
        _RULES,
        '        return "none"\n    return strain',
        '        return "none"\n    return "none"',
        f"{_RULES_TEST}::test_inside_the_band_the_strain_never_changes",
    ),
    Mutant(
        "P8",
        "no slot is kept for takeovers",
        _RULES,
        "return slots // 20",
        "return 0",
        f"{_RULES_TEST}::test_a_twentieth_of_the_slots_is_kept_for_takeovers",
    ),
    Mutant(
        "P11",
        "burst is never full",
        _RULES,
        "if load.burst_waiting >= limits.waiting_turns:",
        "if False:",
        f"{_RULES_TEST}::test_the_turn_is_shed_when_too_many_wait_in_burst",
    ),
    Mutant(
        "P7",
        "turns are taken that cannot be answered in time",
        _RULES,
        "elif predicted_ms >= limits.wait_ms:",
        "elif False:",
        f"{_RULES_TEST}::test_the_turn_is_shed_when_its_wait_would_outlive_it",
    ),
    Mutant(
        "P4",
        "a queued turn gets a second message",
        _RULES,
        "if is_takeover or is_queued:",
        "if is_takeover:",
        f"{_RULES_TEST}::test_takeovers_and_queued_turns_are_never_put_on_a_second_queue",
    ),
    Mutant(
        "P10",
        "one tenant may hold all slots",
        _RULES,
        "if is_over_share and not is_takeover:",
        "if False:",
        f"{_RULES_TEST}::test_a_tenant_over_its_share_overflows",
    ),
    Mutant(
        "B-31",
        "a level is left at the first calm reading",
        _LEVEL,
        "if now_ms - calm_since_ms < LEAVE_AFTER_MS:",
        "if False:",
        f"{_LEVEL_TEST}::test_a_level_is_left_after_ten_calm_seconds",
    ),
    Mutant(
        "B-31",
        "levels are left where they are entered",
        _LEVEL,
        "held = _highest(load, burst_capacity_turns, LEAVE_SHARE)",
        "held = _highest(load, burst_capacity_turns, 1.0)",
        f"{_LEVEL_TEST}::test_inside_the_band_the_level_never_changes",
    ),
    Mutant(
        "B-31",
        "waiting turns do not raise the level",
        _LEVEL,
        "if waiting_per_capacity >= ratio * share or wait_ms > limit_ms * share",
        "if wait_ms > limit_ms * share",
        f"{_LEVEL_TEST}::test_levels_are_entered_at_their_share_of_the_capacity",
    ),
    Mutant(
        "B-07",
        "a draining task gives out slots",
        "services/orchestrator/placement.py",
        "is_draining=self.is_closed,",
        "is_draining=False,",
        "tests/unit/services/orchestrator/test_placement.py"
        "::test_a_draining_task_gives_out_no_slot",
    ),
    Mutant(
        "P8",
        "an overflowing turn is not marked as queued",
        "services/orchestrator/placement.py",
        "        task = asyncio.create_task(self._mark(request))\n",
        "        task = asyncio.create_task(asyncio.sleep(0))\n",
        "tests/unit/services/orchestrator/test_placement.py"
        "::test_a_turn_without_a_slot_goes_to_burst_and_is_marked",
    ),
    Mutant(
        "B-07",
        "the drain does not wait for turns",
        "services/orchestrator/inline_runner.py",
        "        while self._tasks:\n            await asyncio.wait(self._tasks)\n",
        "        return\n",
        "tests/unit/services/orchestrator/test_inline_runner.py"
        "::test_drain_waits_for_turns_started_meanwhile_too",
    ),
    Mutant(
        "B-07",
        "parts stop before the drain",
        "services/lifecycle.py",
        "        await _drain_within(drain, drain_limit_s, signals)\n    finally:\n",
        "        for task in reversed(tasks):\n            await _stop(task)\n"
        "        await _drain_within(drain, drain_limit_s, signals)\n    finally:\n",
        "tests/unit/services/test_lifecycle.py"
        "::test_parts_keep_running_during_the_drain_and_stop_in_reverse",
    ),
    Mutant(
        "B-07",
        "a second signal changes nothing",
        "services/lifecycle.py",
        "(self.exit_asked if self.drain_asked.is_set() else self.drain_asked).set()",
        "self.drain_asked.set()",
        "tests/unit/services/test_lifecycle.py::test_a_second_signal_cuts_the_drain",
    ),
)
