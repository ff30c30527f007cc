"""Handshakes, REST, health and the page of a running gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import websockets

from services.gateway.identity import Identities
from shared.contracts.server_frames import Timings, Usage
from shared.contracts.stored_turns import StoredTurn
from tests.fakes.gateway_world import SECRET, GatewayWorld, gateway_world


@pytest.fixture
async def world() -> AsyncIterator[GatewayWorld]:
    async with gateway_world() as running:
        yield running


async def call(
    world: GatewayWorld, method: str, path: str, **options: Any
) -> tuple[int, dict[str, str], str]:
    async with (
        aiohttp.ClientSession() as http,
        http.request(method, world.http_url + path, **options) as answer,
    ):
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status, headers, await answer.text()


def token(world: GatewayWorld, user: str = "ann", lifetime_ms: int = 60_000) -> str:
    identities = Identities(
        mode="jwt", secret=SECRET, audience="burstchat", issuer="burstchat", clock=world.clock
    )
    return identities.issue(user, "default", lifetime_ms)[0]


# handshake ---------------------------------------------------------------------------------------


async def refusal(world: GatewayWorld, query: str = "", **options: Any) -> websockets.Response:
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with websockets.connect(world.ws_url + query, **options):
            pass
    return refused.value.response


async def test_without_a_token_the_handshake_is_401() -> None:
    async with gateway_world(auth_mode="jwt") as world:
        response = await refusal(world)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert json.loads(response.body)["code"] == "unauthorized"
        by_query = await refusal(world, f"?token={token(world)}&access_token={token(world)}")
        assert by_query.status_code == 401


async def test_a_token_comes_by_header_or_subprotocol() -> None:
    async with gateway_world(auth_mode="jwt") as world:
        bearer = {"Authorization": f"Bearer {token(world)}"}
        async with world.client(additional_headers=bearer) as client:
            assert client.socket.subprotocol is None
        protocols = ["burstchat.v1", f"bearer.{token(world)}"]
        async with world.client(subprotocols=protocols) as client:
            assert client.socket.subprotocol == "burstchat.v1"


async def test_an_expiring_token_closes_4401() -> None:
    async with gateway_world(auth_mode="jwt") as world:
        bearer = {"Authorization": f"Bearer {token(world, lifetime_ms=2_000)}"}
        async with world.client(additional_headers=bearer) as client:
            assert await client.closed() == 4401


@pytest.mark.parametrize(
    ("allowed", "origin", "admitted"),
    [
        ((), "http://evil.example", False),
        (("https://shop.example",), "https://shop.example", True),
        (("https://shop.example",), "https://evil.example", False),
    ],
)
async def test_a_browser_from_elsewhere_is_403(
    allowed: tuple[str, ...], origin: str, admitted: bool
) -> None:
    async with gateway_world(allowed_origins=allowed) as world:
        if admitted:
            async with world.client(origin=origin):
                pass
        else:
            assert (await refusal(world, origin=origin)).status_code == 403


async def test_a_session_id_that_is_none_is_refused_and_an_absent_one_is_made(
    world: GatewayWorld,
) -> None:
    for wrong in ("?session_id=", "?session_id=a%20b", "?session_id=" + "a" * 65):
        assert (await refusal(world, wrong)).status_code == 400
    async with world.client("") as client:
        assert len(client.ready["session_id"]) == 20


@pytest.mark.case("B-26")
async def test_an_address_that_connects_too_fast_is_told_when_to_come_back() -> None:
    async with gateway_world(address_handshakes_per_s=2, trusted_proxies=1) as world:
        headers = {"X-Forwarded-For": "1.1.1.1, 9.9.9.9"}
        for _ in range(2):
            async with world.client(additional_headers=headers):
                pass
        response = await refusal(world, additional_headers=headers)
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        other = {"X-Forwarded-For": "9.9.9.9, 1.1.1.1"}
        async with world.client(additional_headers=other):
            pass


@pytest.mark.case("B-26")
async def test_in_a_storm_those_beyond_the_budget_are_told_when_to_come_back_and_cost_no_entry() -> (
    None
):
    async with gateway_world(returning_handshakes_per_s=1) as world, world.client("?session_id=s1"):
        response = await refusal(world, "?session_id=s2")
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        assert len(world.registry._entries) == 1
        async with world.client(""):
            pass  # who is new has a budget of their own


async def test_a_token_is_judged_by_a_session_name_that_cannot_be_without_a_look_at_any_store(
    world: GatewayWorld,
) -> None:
    world.store.unavailable = world.ledger.unavailable = True
    async with (
        aiohttp.ClientSession() as http,
        http.get(world.http_url + "/v1/sessions/%20/turns") as answer,
    ):
        assert answer.status == 404


@pytest.mark.case("B-14", "B-16")
async def test_a_registry_that_is_away_refuses_handshakes_with_503(world: GatewayWorld) -> None:
    world.registry.unavailable = True
    response = await refusal(world)
    assert response.status_code == 503
    assert "retry-after" in response.headers
    world.registry.unavailable = False
    async with world.client():
        pass


async def test_another_path_is_no_socket(world: GatewayWorld) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with websockets.connect(world.ws_url + "/elsewhere"):
            pass
    assert refused.value.response.status_code == 404


# health ------------------------------------------------------------------------------------------


async def test_a_gateway_is_alive_and_ready(world: GatewayWorld) -> None:
    assert (await call(world, "GET", "/healthz"))[0] == 200
    async with world.client():
        status, _, body = await call(world, "GET", "/readyz")
    assert (status, json.loads(body)) == (200, {"status": "ready", "failing": {}})


async def test_readiness_names_what_fails() -> None:
    async with gateway_world(owner_lease_ms=0) as world:
        world.registry.unavailable = True
        await world.gateway.parts[0].renew()  # type: ignore[attr-defined]
        world.gateway.drain._readiness.is_draining = True
        status, _, body = await call(world, "GET", "/readyz")
    assert status == 503
    assert json.loads(body)["failing"] == {
        "redis": "the fake registry was told to be away",
        "process": "draining",
    }


async def test_a_gateway_whose_turns_nobody_takes_is_not_ready(world: GatewayWorld) -> None:
    world.intake.unavailable = world.turn_queue.unavailable = True
    async with world.client() as client:
        assert (await client.ask())["code"] == "unavailable"
        status, _, body = await call(world, "GET", "/readyz")
    assert (status, list(json.loads(body)["failing"])) == (503, ["workers"])


# turns -------------------------------------------------------------------------------------------


async def test_a_turn_is_shown_in_every_state(world: GatewayWorld) -> None:
    async with world.client() as client:
        turn_id = (await client.ask())["turn_id"]
        path = f"/v1/turns/{turn_id}"
        status, _, body = await call(world, "GET", path)
        shown = json.loads(body)
        assert (status, shown["status"], shown["attempt"]) == (200, "waiting", 0)
        assert (shown["session_id"], shown["message_id"]) == ("s1", "m1")
        assert "text" not in shown
        turn = await world.play()
        await turn.started()
        await turn.delta("Hé")
        shown = json.loads((await call(world, "GET", path))[2])
        assert (shown["status"], shown["text"]) == ("running", "Hé")
        await turn.complete()
        shown = json.loads((await call(world, "GET", path))[2])
        assert (shown["status"], shown["text"]) == ("completed", "Hé")
        assert shown["stop_reason"] == "end_turn"
        assert shown["usage"] == {"input_tokens": 1, "output_tokens": 1}


async def test_a_stored_turn_outlives_the_ledger_and_is_history(world: GatewayWorld) -> None:
    async with world.client() as client:
        await client.ask("question")
        turn = await world.play()
        await turn.complete()
        await client.until("chat.response.completed")
        stored = StoredTurn(
            ref=turn.ref.turn,
            message_id="m1",
            attempt=1,
            nonce="n",
            status="completed",
            user_text="question",
            assistant_text="answer",
            stop_reason="end_turn",
            intent="general",
            model="m",
            usage=Usage(),
            timings=Timings(queued_ms=0, first_token_ms=0, total_ms=0),
            sources=(),
            accepted_at_ms=1,
            completed_at_ms=2,
        )
        await world.store.put(stored)
        world.ledger.forget(turn.ref.turn)
        shown = json.loads((await call(world, "GET", f"/v1/turns/{turn.turn_id}"))[2])
        assert (shown["status"], shown["text"], shown["completed_at_ms"]) == (
            "completed",
            "answer",
            2,
        )
        page = json.loads((await call(world, "GET", "/v1/sessions/s1/turns?limit=5"))[2])
        assert [one["assistant_text"] for one in page["turns"]] == ["answer"]
        assert page["more"] is False
        await client.send("chat.resume", turn_id=turn.turn_id, after_seq=5, attempt=1)
        resumed = await client.frame()
        assert (resumed["attempt"], resumed["from_seq"], resumed["complete"]) == (2, 0, True)
        frames = await client.until("chat.response.completed")
        assert [(one["attempt"], one["seq"]) for one in frames] == [(2, 0), (2, 1), (2, 2)]
        assert frames[0]["path"] == "stored"
        await client.send("chat.cancel", turn_id=turn.turn_id)
        assert (await client.frame())["type"] == "chat.response.completed"


async def test_other_users_turns_do_not_exist(world: GatewayWorld) -> None:
    async with world.client() as client:
        turn_id = (await client.ask())["turn_id"]
    mallory = {"Authorization": f"Bearer {token(world, 'mallory')}"}
    for method in ("GET", "DELETE"):
        status, _, body = await call(world, method, f"/v1/turns/{turn_id}", headers=mallory)
        assert (status, json.loads(body)["code"]) == (404, "unknown_turn")
    assert (await call(world, "DELETE", "/v1/turns/nonsense"))[0] == 404
    page = await call(world, "GET", "/v1/sessions/s1/turns", headers=mallory)
    assert json.loads(page[2]) == {"turns": [], "more": False}


async def test_a_turn_is_cancelled_over_http_and_its_follower_told(world: GatewayWorld) -> None:
    async with world.client() as client:
        turn_id = (await client.ask())["turn_id"]
        for _ in range(2):  # an ended turn answers the same
            assert (await call(world, "DELETE", f"/v1/turns/{turn_id}"))[0] == 202
        assert (await client.frame())["type"] == "chat.response.cancelled"


async def test_a_store_that_is_away_is_503_with_a_hint(world: GatewayWorld) -> None:
    world.store.unavailable = True
    status, headers, body = await call(world, "GET", "/v1/sessions/s1/turns")
    assert (status, headers["retry-after"], json.loads(body)["code"]) == (503, "1", "unavailable")


# errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("PUT", "/v1/tokens", 405, "method_not_allowed"),
        ("GET", "/v1/sessions/s1/turns?limit=51", 400, "bad_request"),
        ("GET", "/v1/sessions/a%20b/turns", 404, "unknown_session"),
        ("POST", "/v1/tokens", 400, "bad_request"),
    ],
)
async def test_faults_have_a_code_and_words(
    world: GatewayWorld, method: str, path: str, status: int, code: str
) -> None:
    got, _, body = await call(world, method, path)
    assert (got, json.loads(body)["code"]) == (status, code)


async def test_a_bug_is_answered_like_every_other_fault_and_tells_nothing(
    world: GatewayWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a user's words")

    world.store.newest = broken  # type: ignore[assignment, method-assign]
    status, headers, body = await call(world, "GET", "/v1/sessions/s1/turns")
    assert (status, headers["content-type"]) == (500, "application/json")
    fault = json.loads(body)
    assert (fault["code"], sorted(fault)) == ("internal", ["code", "message"])
    assert "words" not in body
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "request.failed"
    ]


async def test_a_table_that_forbids_reads_is_503_with_a_hint(world: GatewayWorld) -> None:
    world.store.refusing = True
    status, headers, body = await call(world, "GET", "/v1/sessions/s1/turns")
    assert (status, json.loads(body)["code"]) == (503, "unavailable")
    assert headers["retry-after"] == "1"


@pytest.mark.case("B-30")
async def test_a_body_above_the_limit_is_413(world: GatewayWorld) -> None:
    status, _, body = await call(world, "POST", "/v1/tokens", data=b"x" * 65_537)
    assert (status, json.loads(body)["code"]) == (413, "message_too_large")


async def test_tokens_are_issued_in_development_only(world: GatewayWorld) -> None:
    _, _, body = await call(world, "POST", "/v1/tokens", json={"user": "ann", "tenant": "acme"})
    issued = json.loads(body)
    assert set(issued) == {"token", "expires_at_ms"}
    bad = await call(world, "POST", "/v1/tokens", json={"user": "a\nb"})
    assert bad[0] == 400
    async with gateway_world(auth_mode="jwt") as production:
        assert (await call(production, "POST", "/v1/tokens", json={"user": "x"}))[0] == 404
        status, headers, _ = await call(production, "GET", "/v1/turns/x")
        assert (status, headers["www-authenticate"]) == (401, "Bearer")


async def test_the_api_describes_itself(world: GatewayWorld) -> None:
    status, _, body = await call(world, "GET", "/openapi.json")
    assert status == 200
    assert "/v1/turns/{turn_id}" in json.loads(body)["paths"]


# page --------------------------------------------------------------------------------------------


async def test_the_page_is_served_with_strict_headers_and_an_etag(world: GatewayWorld) -> None:
    status, headers, _ = await call(world, "GET", "/")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["x-content-type-options"] == "nosniff"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    known = {"If-None-Match": headers["etag"]}
    assert (await call(world, "GET", "/", headers=known))[0] == 304
    script = await call(world, "GET", "/static/reducer.js")
    assert script[1]["content-type"] == "text/javascript; charset=utf-8"
    assert (await call(world, "POST", "/"))[0] == 405


@pytest.mark.parametrize(
    "path", ["/static/../settings.py", "/static/%2e%2e/%2e%2e/pyproject.toml", "/static/none.js"]
)
async def test_nothing_else_is_served(world: GatewayWorld, path: str) -> None:
    assert (await call(world, "GET", path))[0] == 404


async def test_the_assistant_has_neutral_words_unless_a_file_gives_others(
    world: GatewayWorld, tmp_path: Path
) -> None:
    _, headers, body = await call(world, "GET", "/assistant.json")
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["name"] == "Assistant"
    profile = tmp_path / "assistant.json"
    profile.write_text('{"name":"Manga","suggestions":["a"]}', encoding="utf-8")
    async with gateway_world(assistant_file=str(profile)) as other:
        _, _, body = await call(other, "GET", "/assistant.json")
        assert json.loads(body)["suggestions"] == ["a"]
