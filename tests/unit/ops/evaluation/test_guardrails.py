"""The table of the guardrails."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from ops.evaluation.guardrails import measure_guardrails
from ops.evaluation.subject import Subject, read_folder
from shared.policy.corpus import read_corpus
from tests.fakes.knowledge import small_corpus

KNOWLEDGE = Path(__file__).parents[4] / "knowledge"


def subject(folder: Path, files: dict[str, bytes]) -> Subject:
    nothing = cast("Any", None)  # the guardrails ask neither embedder nor index
    return Subject(folder, nothing, read_corpus(files), nothing)


async def test_the_example_s_labelled_messages_meet_the_goals() -> None:
    table = await measure_guardrails(subject(KNOWLEDGE, read_folder(KNOWLEDGE)))

    assert table is not None
    quality = [measure for measure in table.measures if measure.unit == ""]
    assert len(quality) == 4
    assert all(measure.is_met for measure in quality)


async def test_what_is_missed_and_what_is_wrongly_masked_is_said(tmp_path: Path) -> None:
    (tmp_path / "guardrails").mkdir()
    line = b'{"text": "card 4111111111111111, call ana", "pii": [["phone", "ana"]]}\n'
    for name in ("pii.jsonl", "pii_held_out.jsonl"):
        (tmp_path / "guardrails" / name).write_bytes(line)
    table = await measure_guardrails(subject(tmp_path, small_corpus()))

    assert table is not None
    assert [measure.value for measure in table.measures[:4]] == [0.0] * 4
    assert set(table.notes) == {
        "wrongly masked: card 4111111111111111, call ana",
        "not masked: card 4111111111111111, call ana",
    }


async def test_a_folder_without_labels_has_no_table(tmp_path: Path) -> None:
    assert await measure_guardrails(subject(tmp_path, small_corpus())) is None
