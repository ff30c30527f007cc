from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from functions.knowledge_refresh import handler as module
from shared.errors import ConfigurationError
from tests.fakes.knowledge import small_corpus
from tests.fakes.knowledge_bucket import BUCKET, KnowledgeBucket, knowledge_bucket

SCHEDULED = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[KnowledgeBucket]:
    monkeypatch.setenv("BURSTCHAT_KNOWLEDGE_BUCKET", BUCKET)
    module._function.cache_clear()
    with knowledge_bucket() as made:
        made.put(small_corpus())
        yield made
    module._function.cache_clear()


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_handler_refreshes_on_schedule_and_by_hand(
    bucket: KnowledgeBucket, capsys: pytest.CaptureFixture[str]
) -> None:
    first = module.handler(SCHEDULED, None)
    assert first["status"] == "replaced"
    assert module.handler({}, None)["status"] == "unchanged"
    metrics = [line for line in printed(capsys) if "_aws" in line]
    assert [n["KnowledgeRefreshReplaced"] for n in metrics if "KnowledgeRefreshReplaced" in n] == [
        1,
        0,
    ]
    assert [line["KnowledgePassages"] for line in metrics if "KnowledgePassages" in line] == [4]
    assert {line["Role"] for line in metrics} == {"knowledge_refresh"}


def test_handler_answers_and_counts_what_is_broken(
    bucket: KnowledgeBucket, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket.put({"series/bad.md": b"no front matter"})
    report = module.handler(SCHEDULED, None)
    assert report["status"] == "refused"
    assert report["faults"][0]["document"] == "series/bad.md"
    lines = printed(capsys)
    assert lines[0]["KnowledgeRefreshFaults"] == 1
    (refused,) = [line for line in lines if line.get("event") == "knowledge.refused"]
    assert (refused["document"], refused["line"]) == ("series/bad.md", 1)


def test_handler_logs_a_bounded_line(
    bucket: KnowledgeBucket, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOGGED_NAMES", 2)
    assert len(module.handler({}, None)["added"]) == 8
    (line,) = [line for line in printed(capsys) if line.get("event") == "knowledge.refreshed"]
    assert line["added"] == "assistant.json intents/recommendation.txt"
    assert (line["added_count"], line["faults_count"]) == (8, 0)


def test_handler_needs_the_bucket_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BURSTCHAT_KNOWLEDGE_BUCKET", raising=False)
    module._function.cache_clear()
    with pytest.raises(ConfigurationError, match="BURSTCHAT_KNOWLEDGE_BUCKET"):
        module.handler({}, None)


def test_handler_imports_only_what_its_bundle_carries() -> None:
    program = (
        "import sys, functions.knowledge_refresh.handler\n"
        "print([name for name in ('redis', 'anthropic', 'fastapi', 'websockets',"
        " 'aws_lambda_powertools', 'wordllama') if name in sys.modules])\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"
