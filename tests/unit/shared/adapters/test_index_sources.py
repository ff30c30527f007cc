from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from shared.adapters.index_artefact import encode_index
from shared.adapters.index_sources import FileIndexSource, S3IndexSource
from shared.errors import DependencyUnavailable, IncompatibleIndex
from tests.fakes.knowledge import FakeEmbedder, small_index
from tests.fakes.knowledge_bucket import knowledge_bucket

INDEX = small_index()
RAW = encode_index(INDEX)


def test_s3_source_gives_the_index_once_per_version() -> None:
    with knowledge_bucket() as bucket:
        source = S3IndexSource(bucket.artefacts, FakeEmbedder())
        with pytest.raises(DependencyUnavailable, match="no index yet"):
            source.fetch(None)
        bucket.artefacts.replace_index(RAW)
        fetched = source.fetch(None)
        assert fetched is not None
        index, version = fetched
        assert index.passages == INDEX.passages
        assert source.fetch(version) is None


def test_s3_source_refuses_an_index_of_another_embedding() -> None:
    with knowledge_bucket() as bucket:
        bucket.artefacts.replace_index(RAW)
        with pytest.raises(IncompatibleIndex):
            S3IndexSource(bucket.artefacts, FakeEmbedder(name="other")).fetch(None)


def test_s3_source_works_without_a_place_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError("read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with knowledge_bucket() as bucket:
        bucket.artefacts.replace_index(RAW)
        fetched = S3IndexSource(bucket.artefacts, FakeEmbedder()).fetch(None)
        assert fetched is not None
        assert fetched[0].passages == INDEX.passages


def test_file_source_sees_a_file_renamed_over_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "index"
    source = FileIndexSource(path, FakeEmbedder())
    with pytest.raises(DependencyUnavailable):
        source.fetch(None)
    path.write_bytes(RAW)
    fetched = source.fetch(None)
    assert fetched is not None
    assert source.fetch(fetched[1]) is None
    newer = tmp_path / "newer"
    newer.write_bytes(RAW)
    os.replace(newer, path)
    again = source.fetch(fetched[1])
    assert again is not None
    assert again[1] != fetched[1]
    assert fetched[0].vectors.any(), "the old mapping outlives its file"
