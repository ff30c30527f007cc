"""Clients of Redis, DynamoDB, SQS and S3."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_STORE = "shared/adapters/dynamodb_turn_store.py"
_STORE_TEST = "tests/unit/shared/adapters/test_dynamodb_turn_store.py"
_STORE_SUITE = "tests/contract/test_turn_store.py"
_REDIS = "shared/adapters/redis_client.py"
_REDIS_TEST = "tests/contract/test_redis_client.py"
_INDEX = "shared/adapters/index_artefact.py"
_INDEX_TEST = "tests/unit/shared/adapters/test_index_artefact.py"

MUTANTS = (
    Mutant(
        "P3",
        "the same attempt stores a second answer",
        _STORE,
        "attempt < :attempt OR",
        "attempt <= :attempt OR",
        f"{_STORE_SUITE}::test_put_of_the_same_attempt_answers_the_turn_that_won",
    ),
    Mutant(
        "B-21",
        "the store does not know its own write",
        _STORE,
        "if (winner.attempt.N, winner.nonce.S) == (item.attempt.N, item.nonce.S):",
        "if False:",
        f"{_STORE_SUITE}::test_put_recognises_its_own_earlier_write",
    ),
    Mutant(
        "B-22",
        "a turn is read eventually",
        _STORE,
        'Text(turn.turn_id)},\n            "ConsistentRead": True,',
        'Text(turn.turn_id)},\n            "ConsistentRead": False,',
        f"{_STORE_TEST}::test_every_read_asks_for_what_was_just_written",
    ),
    Mutant(
        "B-22",
        "history is read eventually",
        _STORE,
        '"ScanIndexForward": False,\n            "ConsistentRead": True,',
        '"ScanIndexForward": False,\n            "ConsistentRead": False,',
        f"{_STORE_TEST}::test_every_read_asks_for_what_was_just_written",
    ),
    Mutant(
        "B-20",
        "items of any size are sent",
        _STORE,
        "if size_bytes > ITEM_LIMIT_BYTES:",
        "if False:",
        f"{_STORE_TEST}::test_the_size_is_checked_before_anything_is_sent",
    ),
    Mutant(
        "B-20",
        "only the first page is read",
        _STORE,
        "if not page.LastEvaluatedKey:",
        "if True:",
        f"{_STORE_SUITE}::test_newest_follows_pages_of_a_megabyte",
    ),
    Mutant(
        "B-20",
        "the oldest turns are read",
        _STORE,
        '"ScanIndexForward": False',
        '"ScanIndexForward": True',
        f"{_STORE_SUITE}::test_newest_reads_backwards_from_the_last_turn",
    ),
    Mutant(
        "P3",
        "markers are history",
        _STORE,
        '"#status <> :marker AND expires_at > :now"',
        '"(#status <> :marker OR #status = :marker) AND expires_at > :now"',
        f"{_STORE_SUITE}::test_newest_leaves_markers_out_and_still_fills_the_page",
    ),
    Mutant(
        "B-37",
        "a cancelled call's connection is used again",
        _REDIS,
        "if is_clean and generation == self._generation:",
        "if True:",
        f"{_REDIS_TEST}::test_cancelled_calls_never_leave_their_answer_for_the_next",
    ),
    Mutant(
        "B-34",
        "a dead connection is used again",
        _REDIS,
        "if now_s - since_s < self._idle_limit_s and not await connection.can_read():",
        "if now_s - since_s < self._idle_limit_s:",
        f"{_REDIS_TEST}::test_connection_closed_by_the_server_is_replaced_before_use",
    ),
    Mutant(
        "B-34",
        "a connection may idle for ever",
        _REDIS,
        "if now_s - since_s < self._idle_limit_s and not await connection.can_read():",
        "if not await connection.can_read():",
        f"{_REDIS_TEST}::test_connection_idle_for_too_long_is_replaced",
    ),
    Mutant(
        "B-21",
        "what may have been executed is sent again",
        _REDIS,
        "is_safe = repeatable or isinstance(error, _NotConnected | BusyLoadingError)",
        "is_safe = True",
        f"{_REDIS_TEST}::test_break_after_sending_is_repeated_only_when_that_is_safe",
    ),
    Mutant(
        "B-16",
        "connections to the old primary are kept",
        _REDIS,
        "                # The old primary: every kept connection points at it.\n"
        "                await self.drop_connections()\n",
        "",
        f"{_REDIS_TEST}::test_read_only_answer_drops_all_connections_and_asks_the_new_primary",
    ),
    Mutant(
        "B-14",
        "callers do not wait for a connection",
        _REDIS,
        "self._slots = asyncio.Semaphore(connections)",
        "self._slots = asyncio.Semaphore(10_000)",
        f"{_REDIS_TEST}::test_five_hundred_lookups_wait_for_two_connections",
    ),
    Mutant(
        "B-30",
        "queue messages of any size are sent",
        "shared/adapters/sqs_turn_queue.py",
        "if len(body) > MESSAGE_LIMIT_BYTES:",
        "if False:",
        "tests/contract/test_turn_queue.py::test_sqs_send_refuses_a_turn_above_64_kib",
    ),
    Mutant(
        "P10",
        "one group for all tenants",
        "shared/adapters/sqs_turn_queue.py",
        '"MessageGroupId": _group_id(group),',
        '"MessageGroupId": "all",',
        "tests/contract/test_turn_queue.py::test_sqs_send_names_the_tenant_as_group",
    ),
    Mutant(
        "index",
        "an index of another embedding is read",
        _INDEX,
        "if identity.embedding != embedding:",
        "if False:",
        f"{_INDEX_TEST}::test_decode_refuses_another_embedding",
    ),
    Mutant(
        "index",
        "a damaged index is read",
        _INDEX,
        "if _checksum(header_bytes, body) != checksum:",
        "if False:",
        f"{_INDEX_TEST}::test_decode_refuses_any_changed_byte",
    ),
    Mutant(
        "B-38",
        "a session's keys lie in several slots",
        "shared/adapters/redis_keys.py",
        'self._base = f"bc:{{{session.slot_tag}}}:"',
        'self._base = f"bc:{session.slot_tag}:"',
        "tests/unit/shared/adapters/test_redis_keys.py"
        "::test_all_keys_of_a_session_lie_in_one_slot_whatever_the_ids",
    ),
    Mutant(
        "P10",
        "one stored turn that cannot be read ends the memory of its session",
        "shared/adapters/dynamodb_turn_store.py",
        "        except DependencyUnavailable:\n            _log.error(",
        "        except ZeroDivisionError:\n            _log.error(",
        "tests/contract/test_turn_store.py::test_a_stored_turn_that_cannot_be_read_hides_no_other",
    ),
    Mutant(
        "P9",
        "one death that cannot be read hides all of its fingerprint",
        "shared/adapters/dynamodb_dead_turns.py",
        "            except DependencyUnavailable:\n                _log.error(",
        "            except ZeroDivisionError:\n                _log.error(",
        "tests/contract/test_dead_turns.py"
        "::test_a_death_that_cannot_be_read_hides_no_other_and_keeps_none_out",
    ),
)
