import asyncio

import msgspec
import pytest

from services.orchestrator.intake import IntakeApp
from shared.contracts.turns import IntakeDecision, encode_turn
from shared.policy.sigv4 import Credential, sign

CREDENTIAL = Credential("AKIDTEST", "secret", "us-east-1")
HOST = "10.0.0.7:8082"


@pytest.fixture
def app(orchestrator) -> IntakeApp:
    return IntakeApp(
        placement=orchestrator.placement,
        watch=orchestrator.watch,
        credential=CREDENTIAL,
        clock=orchestrator.clock,
    )


async def call(app, method: str, path: str, body: bytes = b"", headers=None, chunks=None):
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in {"host": HOST, **(headers or {})}.items()],
    }
    parts = list(chunks or [body])
    answer = []

    async def receive():
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message):
        answer.append(message)

    await app(scope, receive, send)
    return answer[0]["status"], msgspec.json.decode(answer[1]["body"])


async def post(app, orchestrator, body: bytes, *, credential=CREDENTIAL, chunks=None):
    headers = sign(credential, "POST", HOST, "/turns", "", {}, body, orchestrator.clock.now_ms())
    return await call(app, "POST", "/turns", body, headers, chunks)


async def test_a_signed_turn_is_answered_with_the_decision(app, orchestrator, make_turn):
    status, answer = await post(app, orchestrator, encode_turn(make_turn(1)))
    assert status == 200
    assert msgspec.convert(answer, IntakeDecision) == IntakeDecision(
        path="inline", reason="free_slot"
    )


async def test_a_body_in_pieces_is_the_same_turn(app, orchestrator, make_turn):
    body = encode_turn(make_turn(1))
    status, _ = await post(app, orchestrator, body, chunks=[body[:20], body[20:]])
    assert status == 200


async def test_the_answer_does_not_wait_for_the_turn(app, orchestrator, make_turn):
    await post(app, orchestrator, encode_turn(make_turn(1)))
    assert orchestrator.runner.count.running == 1


async def test_a_shed_turn_has_no_path_and_a_hint(app, orchestrator, make_turn):
    for number in range(3):
        orchestrator.board.queued_at_ms[str(number)] = 0
    await orchestrator.watch.refresh()
    answers = [
        await post(app, orchestrator, encode_turn(make_turn(number))) for number in range(1, 4)
    ]
    status, shed = answers[-1]
    assert status == 200
    assert (shed["path"], shed["reason"]) == (None, "burst_full")
    assert shed["retry_after_ms"] > 0


@pytest.mark.parametrize(
    "credential",
    [Credential("AKIDOTHER", "secret", "us-east-1"), Credential("AKIDTEST", "no", "us-east-1")],
)
async def test_a_foreign_signature_is_forbidden(app, orchestrator, make_turn, credential):
    status, _ = await post(app, orchestrator, encode_turn(make_turn(1)), credential=credential)
    assert status == 403
    assert orchestrator.runner.count.running == 0


async def test_an_unsigned_turn_is_forbidden(app, orchestrator, make_turn):
    status, _ = await call(app, "POST", "/turns", encode_turn(make_turn(1)))
    assert status == 403


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"schema":1}', b"\xff", b"[" * 9_000])
async def test_what_is_no_turn_is_a_bad_request(app, orchestrator, body):
    status, _ = await post(app, orchestrator, body)
    assert status == 400


async def test_a_turn_of_another_schema_is_a_bad_request(app, orchestrator, make_turn):
    status, _ = await post(app, orchestrator, encode_turn(make_turn(1, schema=2)))
    assert status == 400


async def test_a_body_above_the_limit_is_too_large(app, orchestrator):
    status, _ = await post(app, orchestrator, b"x" * 70_000)
    assert status == 413


async def test_a_body_that_does_not_arrive_is_given_up(app, orchestrator, monkeypatch):
    monkeypatch.setattr("services.orchestrator.intake.BODY_TIMEOUT_S", 0.01)
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/turns"}
    await app(scope, asyncio.Event().wait, send)
    assert sent[0]["status"] == 408


async def test_half_a_body_of_a_caller_who_left_is_not_judged(app, caplog):
    sent = []

    async def send(message):
        sent.append(message)

    events = iter(
        [
            {"type": "http.request", "body": b"{", "more_body": True},
            {"type": "http.disconnect"},
        ]
    )

    async def receive():
        return next(events)

    await app({"type": "http", "method": "POST", "path": "/turns"}, receive, send)
    assert (sent, caplog.records) == ([], [])


async def test_the_gateway_is_told_when_burst_did_not_take_the_turn(app, orchestrator, make_turn):
    orchestrator.queue.unavailable = True
    answers = [
        await post(app, orchestrator, encode_turn(make_turn(number))) for number in range(1, 4)
    ]
    assert [status for status, _ in answers] == [200, 200, 503]


@pytest.mark.case("B-07")
async def test_a_draining_task_refuses_turns_and_is_not_ready(app, orchestrator, make_turn):
    assert (await call(app, "GET", "/readyz"))[0] == 200
    orchestrator.placement.close()
    assert (await post(app, orchestrator, encode_turn(make_turn(1))))[0] == 503
    assert await call(app, "GET", "/readyz") == (
        503,
        {"status": "not_ready", "failing": {"intake": "draining"}},
    )
    assert (await call(app, "GET", "/healthz"))[0] == 200


@pytest.mark.case("B-16")
async def test_readiness_names_a_dependency_that_is_away_for_long(app, orchestrator):
    orchestrator.board.available = False
    await orchestrator.watch.refresh()
    assert (await call(app, "GET", "/readyz"))[0] == 200
    orchestrator.clock.skip(6)
    status, answer = await call(app, "GET", "/readyz")
    assert (status, list(answer["failing"])) == (503, ["redis"])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/turns", 405), ("POST", "/healthz", 405), ("GET", "/", 404)],
)
async def test_other_requests_are_refused(app, method, path, status):
    assert (await call(app, method, path))[0] == status
