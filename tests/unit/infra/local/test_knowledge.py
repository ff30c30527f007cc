from pathlib import Path

import pytest

from infra.local import knowledge
from infra.local.errors import StackError
from infra.local.knowledge import read_documents
from tests.fakes.knowledge import small_corpus


def written(folder: Path, files: dict[str, bytes]) -> Path:
    for name, body in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    return folder


def test_documents_are_read_by_their_path_and_other_files_left_alone(tmp_path: Path) -> None:
    folder = written(tmp_path, small_corpus() | {"queries.jsonl": b"{}", "README.md": b"notes"})
    assert read_documents(folder) == small_corpus()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"there is no folder .*nowhere"):
        read_documents(tmp_path / "nowhere")


def test_each_fault_of_a_folder_is_a_sentence_with_its_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {"a.md": b"no", "b.md": b"---\nid: b\noops\n---\nText", "prompt.md": b" "}
    folder = written(tmp_path, small_corpus() | broken)
    monkeypatch.setattr(knowledge, "_TOLD_FAULTS", 2)
    with pytest.raises(StackError) as caught:
        read_documents(folder)
    assert str(caught.value) == (
        f"{folder} cannot be used: a.md, line 1: does not begin with front matter (a line `---`); "
        "b.md, line 3: is not `key: value`; and 1 more"
    )
