"""`burstchat prompt` against the running stack: what a real model would be told."""

from __future__ import annotations

import json

from tests.harness.chat import chat
from tests.harness.stack import Stack

QUESTION = "Where is my order MA-10482?"


async def test_the_prompt_of_a_session_is_the_one_that_the_model_was_given(stack: Stack) -> None:
    async with chat(stack.chat_url) as client:
        for text in ("Hello!", QUESTION):
            turn_id = (await client.accepted(await client.send(text)))["turn_id"]
            completed = await client.end(turn_id)
        session_id = client.session_id

    shown = stack.run("prompt", "--session", session_id)
    asked = stack.run(
        "prompt", "--session", session_id, "--text", "And when will it come?", "--json"
    )

    assert shown.returncode == 0, shown.stderr
    assert '<order number="MA-10482" status="shipped"' in shown.stdout
    assert shown.stdout.rstrip().endswith(QUESTION)
    assert shown.stdout.count("cache mark") == 2
    fields = json.loads(asked.stdout)
    assert [message["content"] for message in fields["messages"][::2][:2]] == ["Hello!", QUESTION]
    assert {"title": "Your order MA-10482", "id": "order:MA-10482"} in completed["sources"]
    assert stack.run("prompt", "--session", session_id, "--user", "ana").returncode == 1
