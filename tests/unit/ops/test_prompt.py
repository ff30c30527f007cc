"""`burstchat prompt`: the prompt of a session's last or next message."""

from __future__ import annotations

import io
import json

import msgspec
import pytest

from ops import prompt as prompt_verb
from ops.main import main
from ops.prompt import NothingToShow, prepare_prompt
from ops.prompt_text import CACHE_MARK, prompt_fields, prompt_text
from shared.bootstrap.inspection import Inspection
from shared.contracts.identifiers import TurnRef, new_turn_id
from shared.contracts.knowledge import PassageEntry
from shared.telemetry import Metrics
from shared.turn.preparation import make_preparation
from tests.fakes.clock import FakeClock
from tests.fakes.knowledge import FakeIntentClassifier, FakeRetriever, fake_sources
from tests.fakes.limits import answer_plan, turn_limits
from tests.fakes.turn_store import FakeTurnStore
from tests.fakes.turn_world import SESSION
from tests.fakes.use_case_world import stored_turn

ENTRY = PassageEntry(
    id="akira#1", source_id="akira", title="Akira", text="Akira has 6 volumes.", kind="series"
)


async def inspection(*turns: tuple[str, str]) -> Inspection:
    clock, limits, store = FakeClock(), turn_limits(), FakeTurnStore()
    for at, (user_text, assistant_text) in enumerate(turns):
        ref = TurnRef(SESSION, new_turn_id(SESSION.session_id, at, bytes(10)))
        turn = msgspec.structs.replace(
            stored_turn(ref), user_text=user_text, assistant_text=assistant_text
        )
        await store.put(turn)

    async def admit(text: str) -> str:
        return text

    preparation = make_preparation(
        store,
        FakeIntentClassifier({"akira": "product_question"}),
        fake_sources(FakeRetriever([ENTRY])),
        admit=admit,
        system_prompt=lambda: "Be kind.",
        clock=clock,
        metrics=Metrics("burstchat", "operator", clock, io.StringIO()),
        limits=limits,
    )
    return Inspection(
        store=store, preparation=preparation, plan=answer_plan("claude-test"), limits=limits
    )


async def test_the_next_message_comes_after_all_turns() -> None:
    prepared = await prepare_prompt(
        await inspection(("one", "1"), ("two", "2")), SESSION, "how many volumes has akira"
    )

    asked = [message.content for message in prepared.prompt.messages[:-1]]
    assert asked == ["one", "1", "two", "2"]
    assert [source.id for source in prepared.sources] == ["akira"]


async def test_the_last_message_comes_after_those_before_it() -> None:
    prepared = await prepare_prompt(await inspection(("one", "1"), ("two", "2")), SESSION, None)

    assert [message.role for message in prepared.prompt.messages] == ["user", "assistant", "user"]
    assert prepared.prompt.messages[-1].content == [{"type": "text", "text": "two"}]


async def test_a_session_without_messages_is_named() -> None:
    with pytest.raises(NothingToShow, match="session s1 of user ana"):
        await prepare_prompt(await inspection(), SESSION, None)


async def test_the_page_shows_every_block_with_its_cost_and_the_cache_marks() -> None:
    prepared = await prepare_prompt(await inspection(("one", "1")), SESSION, "volumes of akira?")

    text = prompt_text(prepared)

    assert text.startswith("model claude-test · intent product_question · at most ")
    assert "sources: Akira\n" in text
    order = [
        "── rules",
        "Be kind.",
        CACHE_MARK,
        "── the user",
        "one",
        "── the assistant",
        "1",
        CACHE_MARK,
    ]
    order += [
        "── what was found",
        "<passages>",
        "Akira has 6 volumes.",
        "── the user, now",
        "volumes of akira?",
    ]
    place = 0
    for piece in order:
        place = text.index(piece, place) + len(piece)
    assert text.count(CACHE_MARK) == 2


async def test_for_programs_it_is_the_prompt_itself() -> None:
    prepared = await prepare_prompt(await inspection(), SESSION, "hello")

    fields = json.loads(json.dumps(prompt_fields(prepared)))
    assert fields["system"] == "Be kind."
    assert fields["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    assert fields["stable_messages"] == 0
    assert fields["sources"] == []


def test_without_a_local_stack_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away() -> dict[str, object]:
        raise prompt_verb.StackAway("no stack runs from this state folder")

    monkeypatch.setattr(prompt_verb, "local_status", away)

    assert main(["prompt", "--session", "s1"]) == 1
    assert "no local stack: no stack runs from this state folder" in capsys.readouterr().err
