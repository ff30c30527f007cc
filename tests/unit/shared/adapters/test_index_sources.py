from __future__ import annotations

import tempfile

import pytest

from shared.adapters.index_artefact import encode_index
from shared.adapters.index_sources import S3IndexSource
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
