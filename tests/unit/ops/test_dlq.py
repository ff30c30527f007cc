"""The verbs over ports in memory."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ops import dlq, dlq_deployment
from ops import main as command
from shared.bootstrap.redrive import RedrivePorts
from shared.contracts.dead_turns import DeadTurn
from shared.errors import ConfigurationError
from shared.settings import Settings
from tests.fakes.dead_turns import FakeDeadTurns
from tests.fakes.deaths import death
from tests.fakes.ledger import FakeLedger
from tests.fakes.queues import FakeTurnQueue
from tests.fakes.turn_store import FakeTurnStore

TURN = death(turn_text="my secret")
FINGERPRINT = TURN.letter.fingerprint


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> FakeDeadTurns:
    table = FakeDeadTurns()
    ledger = FakeLedger(dlq._clock)

    @asynccontextmanager
    async def ports(*_: object) -> AsyncIterator[RedrivePorts]:
        yield RedrivePorts(
            sessions=ledger,
            revival=ledger,
            store=FakeTurnStore(),
            turn_queue=FakeTurnQueue(),
            dead_turns=table,
        )

    monkeypatch.setattr(dlq, "find_deployment", lambda: (Settings(), None))
    monkeypatch.setattr(dlq, "open_redrive_ports", ports)
    return table


@pytest.fixture
def turn(dead: FakeDeadTurns) -> DeadTurn:
    dead._seen.add(FINGERPRINT)
    dead.deaths.append(TURN)
    return TURN


def test_list_groups_by_fingerprint(turn: DeadTurn, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["dlq", "list", "--json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)
    assert (group["fingerprint"], group["count"], group["open"]) == (FINGERPRINT, 1, 1)


@pytest.mark.parametrize("target", [FINGERPRINT, TURN.id])
@pytest.mark.case("B-29")
def test_show_hides_text_unless_asked(
    turn: DeadTurn, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["dlq", "show", target]) == 0
    shown = capsys.readouterr().out
    assert turn.id in shown
    assert "secret" not in shown
    assert command.main(["dlq", "show", turn.id, "--text"]) == 0
    assert "my secret" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["show"], ["redrive"], ["discard", "--why", "x"]])
@pytest.mark.parametrize("target", ["s1.never", "ffffffffffffffff"])
def test_an_unknown_target_is_said_to_be_unknown(
    dead: FakeDeadTurns,
    arguments: list[str],
    target: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    verb, *rest = arguments
    assert command.main(["dlq", verb, target, *rest]) == 1
    assert "is no dead turn" in capsys.readouterr().err


def test_redrive_answers_another_code_when_the_canary_does_not_come_through(
    turn: DeadTurn, dead: FakeDeadTurns, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["dlq", "redrive", FINGERPRINT, "--wait", "0.01", "--by", "ann", "--json"]
    assert command.main(arguments) == dlq.EXIT_STOPPED
    report = json.loads(capsys.readouterr().out)
    assert (report["redriven"], bool(report["stopped"])) == (1, True)
    assert [(step.kind, step.by) for step in dead.deaths[0].trail] == [("redriven", "ann")]


def test_discard_notes_who_and_why(
    turn: DeadTurn, dead: FakeDeadTurns, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["dlq", "discard", FINGERPRINT, "--why", "a load test", "--by", "ben"]
    assert command.main(arguments) == 0
    assert capsys.readouterr().out.startswith("1 discarded")
    assert command.main(arguments) == 0
    assert capsys.readouterr().out.startswith("0 discarded, 1 were not open")
    (step,) = dead.deaths[0].trail
    assert (step.kind, step.by, step.note) == ("discarded", "ben", "a load test")


@pytest.mark.parametrize("arguments", [["--rate", "0"], ["--wait", "-1"], ["--rate", "fast"]])
def test_redrive_refuses_senseless_numbers(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["dlq", "redrive", "s1.x", *arguments])
    assert ended.value.code == 2


def test_what_cannot_be_asked_is_one_line(
    turn: DeadTurn, dead: FakeDeadTurns, capsys: pytest.CaptureFixture[str]
) -> None:
    dead.unavailable = True
    assert command.main(["dlq", "list"]) == 1
    assert capsys.readouterr().err == "burstchat: the fake table was told to be away\n"


STATUS = {
    "urls": {"redis": "redis://127.0.0.1:5/0", "aws": "http://127.0.0.1:4"},
    "queues": {"background": {"visible": 0, "url": "http://127.0.0.1:4/0/background"}},
    "tables": {"turns": "t", "dead_turns": "d"},
}


def test_the_local_stack_gives_the_settings_when_the_environment_names_no_deployment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BURSTCHAT_DEAD_TURNS_TABLE", raising=False)
    monkeypatch.setattr(dlq_deployment, "local_status", lambda: STATUS)
    settings, credential = dlq_deployment.find_deployment()
    assert settings.aws.dead_turns_table == "d"
    assert credential is not None


def test_a_stack_that_still_starts_is_said_to_be_not_ready() -> None:
    with pytest.raises(ConfigurationError, match="not ready"):
        dlq_deployment.local_environment({**STATUS, "queues": {}})


def test_a_deployment_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in dlq_deployment.local_environment(STATUS).items():
        monkeypatch.setenv(name, value)
    settings, credential = dlq_deployment.find_deployment()
    assert settings.redis.redis_url == "redis://127.0.0.1:5/0"
    assert credential is None


def test_half_a_deployment_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURSTCHAT_DEAD_TURNS_TABLE", "d")
    monkeypatch.delenv("BURSTCHAT_REDIS_URL", raising=False)
    with pytest.raises(ConfigurationError, match="BURSTCHAT_REDIS_URL is missing"):
        dlq_deployment.find_deployment()
