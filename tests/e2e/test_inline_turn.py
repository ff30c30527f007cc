"""A turn answered on ECS: exactly the frames of the protocol, the right text, one stored item."""

from __future__ import annotations

from tests.harness.chat import chat, sha256
from tests.harness.stack import Stack


async def test_inline_turn_streams_exactly_the_protocol_frames(stack: Stack) -> None:
    async with chat(stack.chat_url) as client:
        message_id = await client.send(
            "/sim tokens=40 ttft_ms=50 tokens_per_s=100 seed=7 id=inline-1"
        )
        accepted = await client.accepted(message_id)
        turn_id = accepted["turn_id"]
        completed = await client.end(turn_id)

        assert accepted == {
            "type": "chat.accepted",
            "message_id": message_id,
            "turn_id": turn_id,
            "path": "inline",
            "duplicate": False,
        }
        frames = client.of_turn(turn_id)
        assert frames[0]["type"] == "chat.response.started"
        assert frames[0]["path"] == "inline"
        assert {frame["type"] for frame in frames[1:-1]} == {"chat.response.delta"}
        assert [frame["seq"] for frame in frames] == list(range(len(frames)))
        assert {frame["attempt"] for frame in frames} == {1}
        text = client.text(turn_id)
        assert completed["type"] == "chat.response.completed"
        assert completed["stop_reason"] == "end_turn"
        assert completed["length"] == len(text) > 0
        assert completed["sha256"] == sha256(text)
        assert completed["usage"]["output_tokens"] == 40
        assert set(completed["timings"]) == {"queued_ms", "first_token_ms", "total_ms"}

    items = stack.stored_turns(turn_id)
    assert len(items) == 1
    assert items[0]["assistant_text"] == text
    assert len(stack.model_calls("inline-1")) == 1


async def test_repeated_message_id_replays_and_never_calls_the_model_again(stack: Stack) -> None:
    async with chat(stack.chat_url) as client:
        message_id = await client.send("/sim tokens=10 ttft_ms=10 id=repeat-1")
        turn_id = (await client.accepted(message_id))["turn_id"]
        await client.end(turn_id)
        text = client.text(turn_id)

        client.frames.clear()
        await client.send("/sim tokens=10 ttft_ms=10 id=repeat-1", message_id)
        again = await client.accepted(message_id)
        await client.end(turn_id)

        assert (again["turn_id"], again["duplicate"]) == (turn_id, True)
        assert client.text(turn_id) == text
    assert len(stack.model_calls("repeat-1")) == 1


async def test_question_is_answered_from_retrieved_passages_and_history_survives_a_reload(
    stack: Stack,
) -> None:
    async with chat(stack.chat_url) as client:
        session_id = client.session_id
        first = await client.send("How many volumes does Fullmetal Alchemist have?")
        turn_id = (await client.accepted(first))["turn_id"]
        completed = await client.end(turn_id)
        text = client.text(turn_id)
        assert "27" in text
        assert any("Fullmetal" in source["title"] for source in completed["sources"])

    async with chat(stack.chat_url, session_id) as client:
        await client.send_frame({"type": "chat.history", "limit": 10})
        history = await client.until(lambda frame: frame["type"] == "chat.history")
        assert [turn["turn_id"] for turn in history["turns"]] == [turn_id]
        assert history["turns"][0]["assistant_text"] == text
        assert history["more"] is False

        second = await client.send("What did I ask you before?")
        again = (await client.accepted(second))["turn_id"]
        await client.end(again)
        assert "Fullmetal" in client.text(again)


async def test_second_message_in_mid_answer_waits_and_runs_after_the_first(stack: Stack) -> None:
    async with chat(stack.chat_url) as client:
        first = await client.send("/sim tokens=20 ttft_ms=300 tokens_per_s=50")
        second = await client.send("/sim tokens=5 ttft_ms=10")
        first_turn = (await client.accepted(first))["turn_id"]
        waiting = await client.accepted(second)
        assert (waiting["path"], waiting["position"]) == ("waiting", 1)
        await client.end(waiting["turn_id"])

        order = [frame["turn_id"] for frame in client.frames if "seq" in frame]
        assert order == sorted(order, key=[first_turn, waiting["turn_id"]].index)


async def test_stop_button_ends_the_turn_and_closes_the_model_call(stack: Stack) -> None:
    async with chat(stack.chat_url) as client:
        message_id = await client.send("/sim tokens=500 ttft_ms=10 tokens_per_s=20 id=stop-1")
        turn_id = (await client.accepted(message_id))["turn_id"]
        await client.until(lambda frame: frame["type"] == "chat.response.delta")
        await client.send_frame({"type": "chat.cancel", "turn_id": turn_id})
        ended = await client.end(turn_id)

        text = client.text(turn_id)
        assert (ended["type"], ended["by"]) == ("chat.response.cancelled", "user")
        assert (ended["length"], ended["sha256"]) == (len(text), sha256(text))
    [call] = stack.model_calls("stop-1")
    assert call["ended"] == "client_closed"
    [item] = stack.stored_turns(turn_id)
    assert item["stop_reason"] == "cancelled"
