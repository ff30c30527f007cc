"""Where turns go, and when they are refused."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_RULES = "shared/policy/admission.py"
_RULES_TEST = "tests/unit/shared/policy/test_admission.py"
_LEVEL = "shared/policy/load_level.py"
_LEVEL_TEST = "tests/unit/shared/policy/test_load_level.py"

_DOOR_TEST = "tests/unit/services/gateway/test_door.py"
_HANDSHAKE_TEST = "tests/unit/services/gateway/test_handshake.py"
_FORECAST = "shared/policy/queue_forecast.py"
_FORECAST_TEST = "tests/unit/shared/policy/test_queue_forecast.py"
_SHARES = "services/orchestrator/tenant_shares.py"
_REGISTRY = "shared/adapters/redis_connection_registry.py"
_REGISTRY_TEST = "tests/contract/test_connection_registry.py"

MUTANTS = (
    Mutant(
        "B-31",
        "a load that comes back makes the level swing",
        _LEVEL,
        "return min(LEAVE_AFTER_MAX_MS, 2 * state.patience_ms)",
        "return LEAVE_AFTER_MS",
        f"{_LEVEL_TEST}::test_a_load_that_comes_back_must_stay_away_twice_as_long_each_time",
    ),
    Mutant(
        "P7",
        "low turns are taken under load",
        "shared/policy/tiers.py",
        'if priority == "low" and level >= LoadLevel.MODERATE:',
        'if priority == "low" and level > LoadLevel.SEVERE:',
        f"{_DOOR_TEST}::test_tiers_are_refused_from_the_lowest_up_as_the_level_rises",
    ),
    Mutant(
        "P7",
        "lower tiers are taken while interactive turns are refused",
        "services/gateway/door.py",
        "if decision is not None:  # what",
        'if decision is not None and priority == "high":  # what',
        f"{_DOOR_TEST}::test_what_an_interactive_turn_is_refused_for_the_lower_tiers_are_refused_for_too",
    ),
    Mutant(
        "P10",
        "each gateway counts a user's turns for itself",
        "services/gateway/shared_rate.py",
        "        if not answer.granted:\n",
        "        if False:\n",
        "tests/unit/services/gateway/test_shared_rate.py"
        "::test_never_more_is_granted_than_the_rate_by_all_gateways_together",
    ),
    Mutant(
        "P7",
        "who was refused is asked about in Redis twice",
        "services/gateway/shared_rate.py",
        "holding.blocked_until_ms = now_ms + answer.wait_ms",
        "await self._sessions.find_message(session, message_id)",
        "tests/unit/services/gateway/test_shared_rate.py::test_a_refusal_is_one_question_each_time",
    ),
    Mutant(
        "P10",
        "connections of a dead gateway count for ever",
        _REGISTRY,
        "        if not gone:\n            return False\n",
        "        return False\n",
        f"{_REGISTRY_TEST}::test_connections_of_a_dead_gateway_do_not_count",
    ),
    Mutant(
        "P10",
        "a closed connection goes on counting",
        _REGISTRY,
        'calls.append(("HDEL", _users(session), follower.connection_id))',
        "pass",
        f"{_REGISTRY_TEST}::test_a_connection_that_closes_makes_room",
    ),
    Mutant(
        "P10",
        "a flood takes what a quiet tenant is about to need",
        _SHARES,
        "return free <= min(kept, max(1, self._slots // KEPT_PART))",
        "return False",
        "tests/unit/services/orchestrator/test_tenant_shares.py"
        "::test_a_flood_leaves_free_what_a_quiet_tenant_used_lately",
    ),
    Mutant(
        "P10",
        "one tenant fills the burst queue",
        "services/gateway/door.py",
        "self._shares.queued(session.tenant, self._clock.now_ms())",
        "pass",
        f"{_DOOR_TEST}::test_a_tenant_that_fills_the_queue_is_refused_while_others_wait_in_it",
    ),
    Mutant(
        "B-26",
        "newcomers and those who return share one budget",
        "services/gateway/handshake.py",
        "self._budgets[named is not None]",
        "self._budgets[False]",
        f"{_HANDSHAKE_TEST}::test_those_who_return_have_a_budget_of_their_own",
    ),
    Mutant(
        "B-26",
        "everybody in a storm is told the same second",
        "services/gateway/rates.py",
        "        self._line_end_ms = place_ms\n",
        "",
        f"{_HANDSHAKE_TEST}::test_a_storm_is_told_to_come_back_at_different_times",
    ),
    Mutant(
        "B-26",
        "all who were refused come back at once",
        "services/gateway/sending.py",
        "self._randomness.uniform(0, 1)",
        "0.0",
        f"{_DOOR_TEST}::test_hints_are_spread_over_as_long_again",
    ),
    Mutant(
        "B-31",
        "a turn's wait counts those behind it",
        _FORECAST,
        "ahead = self._entered_at(queued_at_ms) - self._left_at(now_ms)",
        "ahead = self._entered_at(now_ms) - self._left_at(now_ms)",
        f"{_FORECAST_TEST}::test_a_turn_waits_for_those_before_it_and_no_longer_than_they_take",
    ),
    Mutant(
        "B-31",
        "the throughput of burst is never learned",
        _FORECAST,
        "self._left += max(0, reading.left - last.left)",
        "self._left += self._expected_per_s * elapsed_s",
        f"{_FORECAST_TEST}::test_what_leaves_a_busy_queue_teaches_its_throughput",
    ),
    Mutant(
        "P8",
        "an offer that nobody heard counts as made",
        "shared/turn/redispatch.py",
        'if not await self._reserve(turn, "dispatch", now_ms):',
        'if not await self._reserve(turn, "offer", now_ms):',
        "tests/unit/shared/turn/test_redispatch.py"
        "::test_an_offer_that_nobody_could_take_is_made_when_somebody_can",
    ),
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
        "if now_ms - calm_since_ms < state.patience_ms:",
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
