"""Queues drained on ECS, dead letters and redrives."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_DELIVERY = "services/orchestrator/queue_runner/delivery.py"
_DELIVERY_TEST = "tests/unit/services/orchestrator/queue_runner/test_delivery.py"
_REDRIVE = "shared/turn/redrive.py"
_REDRIVE_TEST = "tests/unit/shared/turn/test_redrive.py"
_TRIAGE = "functions/dlq_triage/triage.py"
_TRIAGE_TEST = "tests/unit/functions/dlq_triage/test_triage.py"
_RECEIVING = "shared/policy/receiving.py"
_RECEIVING_TEST = "tests/unit/shared/policy/test_receiving.py"

MUTANTS = (
    Mutant(
        "B-03",
        "a message comes back while its turn runs",
        _DELIVERY,
        "async with self._hidden(message):",
        "if True:",
        f"{_DELIVERY_TEST}::test_a_message_stays_hidden_while_its_turn_runs",
    ),
    Mutant(
        "P9",
        "a message is deleted before its turn is settled",
        _DELIVERY,
        "                if await self._settle(message, give_up):\n"
        "                    await self._inbox.delete(message)\n",
        "                await self._settle(message, give_up)\n"
        "                await self._inbox.delete(message)\n",
        f"{_DELIVERY_TEST}"
        "::test_a_message_whose_turn_could_not_be_settled_comes_back_after_its_visibility",
    ),
    Mutant(
        "B-07",
        "a cut delivery keeps its message hidden",
        _DELIVERY,
        "                await self.give_back(message)\n                raise\n",
        "                raise\n",
        f"{_DELIVERY_TEST}::test_a_cancelled_delivery_gives_its_message_back_at_once",
    ),
    Mutant(
        "P9",
        "a malformed message that could not be kept is deleted on ECS",
        _DELIVERY,
        '_log.warning("message.malformed_not_kept", '
        "error_type=type(unavailable).__name__)\n            return False",
        '_log.warning("message.malformed_not_kept", '
        "error_type=type(unavailable).__name__)\n            return True",
        f"{_DELIVERY_TEST}::test_a_malformed_message_that_cannot_be_kept_is_not_deleted",
    ),
    Mutant(
        "P10",
        "one queue takes all slots",
        _RECEIVING,
        "key=lambda name: (self._start(name), -self._weight(name))",
        "key=lambda name: -self._weight(name)",
        f"{_RECEIVING_TEST}::test_no_queue_starves_under_endless_load_of_the_others",
    ),
    Mutant(
        "P11",
        "more is received than there are slots",
        _RECEIVING,
        "free = self._limits.slots - running - self._held",
        "free = self._limits.slots - running",
        f"{_RECEIVING_TEST}::test_slots_are_never_exceeded_and_always_come_back",
    ),
    Mutant(
        "B-29",
        "a redriven turn that was answered meanwhile runs again",
        _REDRIVE,
        "if is_answer(await self._store.get(dead.letter.turn.ref)):",
        "if False:",
        f"{_REDRIVE_TEST}::test_a_turn_that_was_answered_meanwhile_is_left_alone",
    ),
    Mutant(
        "B-29",
        "a second redrive sends the turn again",
        _REDRIVE,
        'if dead.state == "redriven":',
        "if False:",
        f"{_REDRIVE_TEST}::test_a_second_redrive_changes_nothing_and_says_so",
    ),
    Mutant(
        "B-29",
        "a turn may be redriven without end",
        _REDRIVE,
        "if dead.redrives >= REDRIVES_PER_TURN:",
        "if False:",
        f"{_REDRIVE_TEST}::test_a_turn_that_died_again_can_be_redriven_three_times",
    ),
    Mutant(
        "B-29",
        "a redriven turn is pushed into the live chat",
        _REDRIVE,
        "            detached=True,\n",
        "            detached=False,\n",
        f"{_REDRIVE_TEST}"
        "::test_a_redriven_turn_goes_to_background_detached_and_low_with_its_last_attempt",
    ),
    Mutant(
        "B-29",
        "a discarded turn is redriven",
        _REDRIVE,
        'if dead.state == "discarded":',
        "if False:",
        f"{_REDRIVE_TEST}::test_a_discarded_turn_stays_discarded",
    ),
    Mutant(
        "P1",
        "a turn that SQS gave up is not ended",
        _TRIAGE,
        "            await self._end(request, state)\n",
        "            pass\n",
        f"{_TRIAGE_TEST}"
        "::test_a_message_that_sqs_moved_unclaimed_ends_its_turn_and_tells_the_reader",
    ),
    Mutant(
        "P3",
        "triage does not look for a stored answer",
        _TRIAGE,
        "return is_answer(await self._store.get(request.ref))",
        "return False",
        f"{_TRIAGE_TEST}::test_a_moved_message_whose_turn_was_answered_is_told_apart",
    ),
    Mutant(
        "P9",
        "the message of a living turn is deleted",
        _TRIAGE,
        '                    _log.info("dead_letter.turn_alive")\n                    return None',
        '                    _log.info("dead_letter.turn_alive")\n                    return ""',
        f"{_TRIAGE_TEST}::test_the_message_of_a_turn_that_somebody_runs_comes_back",
    ),
    Mutant(
        "B-07",
        "a turn that outlives the drain waits for a sweeper",
        "services/orchestrator/queue_runner/slots.py",
        "            give_up.interrupt()\n",
        "            pass\n",
        "tests/unit/services/orchestrator/queue_runner/test_slots.py"
        "::test_turns_that_outlive_the_drain_are_handed_over",
    ),
    Mutant(
        "P1",
        "a turn that gives up loses its message before the next attempt is sent",
        "services/orchestrator/queue_runner/delivery.py",
        "            await self.give_back(message)\n            return False\n",
        "            return True\n",
        "tests/unit/services/orchestrator/queue_runner/test_delivery.py"
        "::test_a_turn_that_cannot_be_handed_over_comes_back_by_its_message",
    ),
    Mutant(
        "P10",
        "a message may carry a number that halts every sweeper",
        "shared/contracts/turns.py",
        "Attempt = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]",
        "Attempt = int",
        "tests/unit/shared/contracts/test_turns.py"
        "::test_a_turn_that_no_gateway_of_ours_accepted_is_malformed",
    ),
    Mutant(
        "P10",
        "one turn whose numbers are none stops the sweeper",
        "shared/adapters/redis_ledger_replies.py",
        "    except (MalformedMessage, ValueError):\n",
        "    except ZeroDivisionError:\n",
        "tests/contract/test_unreadable_turns.py"
        "::test_a_turn_whose_numbers_are_none_counts_as_unknown_and_hides_no_other",
    ),
)
