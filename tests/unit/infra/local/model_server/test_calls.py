from infra.local.model_server.calls import CallLog
from infra.local.model_server.scripting import Script


def test_calls_come_oldest_first_in_the_documented_shape():
    log = CallLog()
    first = log.begin("a", 1)
    first.deltas = 3
    first.finish("completed", 9)
    log.begin("a", 2, {"model": "m"})
    assert log.calls("a") == [
        {"started_at_ms": 1, "ended_at_ms": 9, "deltas": 3, "ended": "completed"},
        {
            "started_at_ms": 2,
            "ended_at_ms": None,
            "deltas": 0,
            "ended": "running",
            "body": {"model": "m"},
        },
    ]


def test_the_first_end_counts():
    call = CallLog().begin("a", 1)
    call.finish("client_closed", 2)
    call.finish("completed", 3)
    assert (call.ended, call.ended_at_ms) == ("client_closed", 2)


def test_a_fault_is_used_up_per_id():
    log = CallLog()
    script = Script(fault="overloaded", times=2)
    assert [log.take_fault("a", script) for _ in range(3)] == [True, True, False]
    assert log.take_fault("b", script)
    assert not log.take_fault("b", Script())


def test_memory_is_bounded_in_ids_calls_and_bodies():
    log = CallLog()
    for number in range(5_000):
        log.begin(f"id{number}", number)
        log.begin("busy", number, {"n": number})
    assert log.calls("id0") == []
    busy = log.calls("busy")
    assert len(busy) == 200
    assert sum("body" in call for call in busy) <= 200
